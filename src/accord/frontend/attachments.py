"""Files that go with a prompt: `@path` mentions and attachments.

A file is embedded, or sent as an image or audio, if the agent supports that. Otherwise it is sent as a link.

The text of a prompt can come from anywhere, for example from an issue tracker. So a mention reaches only
files in the session's directories, and no files with secrets. The user can attach any file.
"""

import base64
import mimetypes
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

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

_MAX_TEXT: Final = 512 * 1024
MAX_MEDIA: Final = 20 * 1024 * 1024
_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_IMAGE_SIGNATURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class AttachmentBuilder:
    """Makes content blocks for one agent. `note` is called when a file can only be sent as a link."""

    def __init__(self, capabilities: AgentCapabilities, note: Callable[[str], None]) -> None:
        self._supported = capabilities.prompt_capabilities or PromptCapabilities()
        self._note = note

    def for_mention(self, path: str) -> ContentBlock:
        """The block for a file or directory that the prompt mentions: its text, or a link."""
        if self._supported.embedded_context and os.path.isfile(path) and _size(path) <= _MAX_TEXT:
            text = _text(_data(path))
            if text is not None:
                return EmbeddedResource(TextResourceContents(_uri(path), text, _type(path) or "text/plain"))
        return _link(path)

    def for_attachment(self, path: str) -> ContentBlock:
        """The block for a file that the user attached, in the best form that the agent supports."""
        if not os.path.isfile(path):
            return _link(path)
        kind = _image_type(path) or _type(path) or ""
        if kind in _IMAGE_TYPES or kind.startswith("audio/"):
            block = self._media(path, kind)
            return block if block is not None else self._unsupported(path, kind)
        if not self._supported.embedded_context:
            return _link(path)
        if _size(path) > _MAX_TEXT:
            return self._too_large(path, _MAX_TEXT)
        data = _data(path)
        text = _text(data)
        if text is not None:
            return EmbeddedResource(TextResourceContents(_uri(path), text, kind or "text/plain"))
        blob = base64.b64encode(data).decode()
        return EmbeddedResource(BlobResourceContents(_uri(path), blob, kind or "application/octet-stream"))

    def for_picture(self, data: bytes, name: str) -> ContentBlock | None:
        """The block for a picture that is in no file; None if the agent supports no pictures."""
        if not self._supported.image:
            self._note(f"{name} is left out: the agent does not support images in prompts")
            return None
        return ImageContent(base64.b64encode(data).decode(), picture_type(data) or "image/png")

    def _media(self, path: str, kind: str) -> ContentBlock | None:
        is_image = kind in _IMAGE_TYPES
        if not (self._supported.image if is_image else self._supported.audio):
            return None
        if _size(path) > MAX_MEDIA:
            return self._too_large(path, MAX_MEDIA)
        encoded = base64.b64encode(_data(path)).decode()
        return ImageContent(encoded, kind, _uri(path)) if is_image else AudioContent(encoded, kind)

    def _unsupported(self, path: str, kind: str) -> ContentBlock:
        unsupported = "images" if kind in _IMAGE_TYPES else "audio"
        self._note(f"{path} is sent as a link: the agent does not support {unsupported} in prompts")
        return _link(path)

    def _too_large(self, path: str, limit: int) -> ContentBlock:
        self._note(f"{path} is sent as a link: it is larger than {limit // 1024} KiB")
        return _link(path)


def _link(path: str) -> ResourceLink:
    size = _size(path) if os.path.isfile(path) else UNSET
    kind = "inode/directory" if os.path.isdir(path) else _type(path) or UNSET
    return ResourceLink(os.path.basename(path) or path, _uri(path), mime_type=kind, size=size)


def _uri(path: str) -> str:
    return Path(path).as_uri()


def _type(path: str) -> str | None:
    return mimetypes.guess_type(path)[0]


def _image_type(path: str) -> str | None:
    return picture_type(_data(path, 12))


def picture_type(start: bytes) -> str | None:
    """The image type by the first bytes. A model refuses an image whose type is wrong."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for signature, kind in _IMAGE_SIGNATURES.items() if start.startswith(signature)), None)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise _unreadable(path, error) from None


def _data(path: str, limit: int = MAX_MEDIA) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(limit)
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
    return UsageError(f"cannot attach {path}: {error.strerror}")


# -- mentions ------------------------------------------------------------------------------------------------

_RESOURCE: Final = re.compile(r"[A-Za-z0-9_.-]{1,40}:[A-Za-z][A-Za-z0-9+.-]*:")
"""How a mention of a resource of an MCP server begins; the agent resolves it."""
_MENTION: Final = re.compile(
    r"""(?:(?<=[\s(\[{<"'`,;])|^)@(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'`<>]+))""", re.MULTILINE
)
_TRAILING: Final = ".,;:!?)]}>"


class PromptMentions(NamedTuple):
    """The mentions of a text."""

    paths: tuple[str, ...]
    """Absolute paths in the order of the text, without duplicates."""
    notes: tuple[str, ...]
    """One line for each word that looks like a mention and is sent as text."""


def find_mentions(
    text: str, folders: Sequence[str], instead: str = "use --attach to send it"
) -> PromptMentions:
    """Find the mentions of a text. Relative paths start at the first of `folders`.

    `instead` tells the user how to send a file that cannot be mentioned.
    """
    roots = [os.path.realpath(folder) for folder in folders]
    paths: dict[str, None] = {}
    notes: dict[str, None] = {}
    for found in _MENTION.finditer(text.replace("\0", " ")):  # a path cannot contain it
        quoted = found[1] or found[2]
        for word in (quoted,) if quoted else _spellings(found[3]):
            path = os.path.normpath(os.path.join(folders[0], os.path.expanduser(word)))
            if not _exists(path):
                continue
            problem = _problem(path, roots)
            if problem is None:
                paths[path] = None
            else:
                notes[f"@{word} {problem} and is sent as text; {instead}"] = None
            break
        else:
            word = quoted or found[3]
            if "/" in word.rstrip("/") and not _RESOURCE.match(word):
                notes[f"@{word} does not exist and is sent as text"] = None
    return PromptMentions(tuple(paths), tuple(notes))


def _spellings(word: str) -> Iterable[str]:
    """The word, then the word without its trailing punctuation."""
    yield word
    while word and word[-1] in _TRAILING:
        word = word[:-1]
        if word:
            yield word


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:
        return False


def _problem(path: str, roots: Sequence[str]) -> str | None:
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(root) for root in roots):
        return "is outside the session's directories"
    from accord.policy.secret_files import is_secret  # compiles long patterns

    if is_secret(Path(path)) or is_secret(real):
        return "may contain secrets"
    return None
