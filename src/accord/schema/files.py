"""Text files of the client, unsaved editor buffers included. Paths are absolute."""

from .base import UNSET, Object
from .ids import SessionId
from .marks import Strict, Uint32


class ReadTextFileRequest(Object):
    """Read a file, from a line (the first is 1) and for a number of lines."""

    session_id: SessionId
    path: str
    line: Strict[Uint32 | None] = UNSET
    limit: Strict[Uint32 | None] = UNSET


class ReadTextFileResponse(Object):
    """The text that was asked for."""

    content: str


class WriteTextFileRequest(Object):
    """Replace a file's text, creating the file if need be."""

    session_id: SessionId
    path: str
    content: str


class WriteTextFileResponse(Object):
    """The text is written."""
