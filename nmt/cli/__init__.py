"""The commands. Each is a typed function in a module of its own; its signature and docstring make the command line.

``command`` turns the function into a command; ``options`` has the types of its options; ``files`` checks paths and
streams lines; ``terminal`` shows messages and progress.
"""
