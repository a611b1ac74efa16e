"""Slash commands: what the user may type as `/name`. They are invoked as ordinary prompt text."""

from typing import TypeAlias

from .base import UNSET, Object
from .marks import Items, Lenient, Opt


class UnstructuredCommandInput(Object):
    """Free text after the command's name; the hint says what to write there."""

    hint: str


AvailableCommandInput: TypeAlias = UnstructuredCommandInput


class AvailableCommand(Object):
    """A command, named without its slash."""

    name: str
    description: str
    input: Opt[AvailableCommandInput | None] = UNSET


class AvailableCommandsUpdate(Object, tag_field="sessionUpdate", tag="available_commands_update"):
    """All commands there are; replaces the list before. Any time after the session exists."""

    available_commands: Lenient[Items[AvailableCommand]]
