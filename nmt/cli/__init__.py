"""The commands. Each is a typed function: its signature and docstring make the command line."""
