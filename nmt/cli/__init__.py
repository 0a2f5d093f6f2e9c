"""The command line: a typed function is a command; its parameters are the options, its docstring is the help.

``nmt-prepare`` is the function ``prepare`` in ``prepare.py``, and so are the others. Parameters before ``*`` are
positional arguments, those after it options, and ``**decoding`` stands for an option for each key of the section
``decoding``. Another heading than ``Args:`` names a group in ``--help``; the last paragraph of a docstring may be
``examples:``. A new command needs a line in ``pyproject.toml``.
"""
