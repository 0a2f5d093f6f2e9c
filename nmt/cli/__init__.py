"""The commands: they parse, call and print, and are thin."""
