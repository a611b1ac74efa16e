"""Parses shell lines: the commands of a line, and every doubt whether the list is complete.

`parse_line` in `command_line.py` is the entry point. This file imports no module of the package, because two
threads of the coding agent may import them at once.
"""
