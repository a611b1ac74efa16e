"""Shell lines: every command in them, and every reason to doubt that it is every one."""

from .line import Line, line_of, read_line
from .words import Assignment, Command, Redirect, Word

__all__ = ["Assignment", "Command", "Line", "Redirect", "Word", "line_of", "read_line"]
