"""Files that go with a prompt, as content blocks: embedded or as pictures where the agent takes that, else as links."""

import base64
import mimetypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from accord.errors import UsageError
from accord.schema import (
    UNSET,
    AgentCapabilities,
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    PromptCapabilities,
    ResourceLink,
    TextResourceContents,
)

LARGEST_TEXT: Final = 512 * 1024
LARGEST_MEDIA: Final = 20 * 1024 * 1024
_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MARKS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class Attaching:
    """Makes blocks for one agent; `note` is told where one becomes less than was asked for."""

    def __init__(self, capabilities: AgentCapabilities, note: Callable[[str], None]) -> None:
        self._takes = capabilities.prompt_capabilities or PromptCapabilities()
        self._note = note

    def mentioned(self, path: str) -> ContentBlock:
        """A file or folder that the prompt speaks of: its text where the agent takes that, else a link."""
        if self._takes.embedded_context and os.path.isfile(path) and _size(path) <= LARGEST_TEXT:
            text = _text(_data(path))
            if text is not None:
                return EmbeddedResource(TextResourceContents(_uri(path), text, _type(path) or "text/plain"))
        return _link(path)

    def attached(self, path: str) -> ContentBlock:
        """A file that the user wants to go along, in the best form that the agent takes."""
        if not os.path.isfile(path):
            return _link(path)
        kind = _picture(path) or _type(path) or ""
        if kind in _PICTURES or kind.startswith("audio/"):
            block = self._media(path, kind)
            return block if block is not None else self._linked(path, kind)
        if not self._takes.embedded_context:
            return _link(path)
        if _size(path) > LARGEST_TEXT:
            return self._too_large(path, LARGEST_TEXT)
        data = _data(path)
        text = _text(data)
        if text is not None:
            return EmbeddedResource(TextResourceContents(_uri(path), text, kind or "text/plain"))
        blob = base64.b64encode(data).decode()
        return EmbeddedResource(BlobResourceContents(_uri(path), blob, kind or "application/octet-stream"))

    def _media(self, path: str, kind: str) -> ContentBlock | None:
        picture = kind in _PICTURES
        if not (self._takes.image if picture else self._takes.audio):
            return None
        if _size(path) > LARGEST_MEDIA:
            return self._too_large(path, LARGEST_MEDIA)
        encoded = base64.b64encode(_data(path)).decode()
        return ImageContent(encoded, kind, _uri(path)) if picture else AudioContent(encoded, kind)

    def _linked(self, path: str, kind: str) -> ContentBlock:
        self._note(
            f"{path} goes as a link: the agent takes no {'images' if kind in _PICTURES else 'audio'} in prompts"
        )
        return _link(path)

    def _too_large(self, path: str, limit: int) -> ContentBlock:
        self._note(f"{path} goes as a link: it has more than {limit // 1024} KiB")
        return _link(path)


def _link(path: str) -> ResourceLink:
    size = _size(path) if os.path.isfile(path) else UNSET
    kind = "inode/directory" if os.path.isdir(path) else _type(path) or UNSET
    return ResourceLink(os.path.basename(path) or path, _uri(path), mime_type=kind, size=size)


def _uri(path: str) -> str:
    return Path(path).as_uri()


def _type(path: str) -> str | None:
    return mimetypes.guess_type(path)[0]


def _picture(path: str) -> str | None:
    """Which sort of picture it is by its first bytes, whatever it is called: a model refuses one that is named wrongly."""
    start = _data(path, 12)
    if start[:4] == b"RIFF" and start[8:] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _MARKS.items() if start.startswith(mark)), None)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise _unreadable(path, error) from None


def _data(path: str, most: int = LARGEST_MEDIA) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError as error:
        raise _unreadable(path, error) from None


def _text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _unreadable(path: str, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be sent along: {error.strerror}")
