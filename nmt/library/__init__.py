"""The functions of the library: what the commands compute, as values; ``import nmt`` has their names."""
