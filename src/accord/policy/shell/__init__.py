"""Parses shell lines: the commands of a line, and every doubt whether the list is complete."""

from accord.policy.shell.command_line import CommandLine, line_from_arguments, parse_line
from accord.policy.shell.syntax import Assignment, Redirect, SimpleCommand, Word

__all__ = [
    "Assignment",
    "CommandLine",
    "Redirect",
    "SimpleCommand",
    "Word",
    "line_from_arguments",
    "parse_line",
]
