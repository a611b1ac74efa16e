"""Files that go with a prompt: `@path` mentions and attachments."""

import base64
import mimetypes
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from accord.errors import UsageError
from accord.policy.secret_files import is_secret
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

# MERGED client.attachments: Files that go with a prompt, as content blocks: embedded or as pictures where the agent takes that, else as links.

LARGEST_TEXT: Final = 512 * 1024
LARGEST_MEDIA: Final = 20 * 1024 * 1024
_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MARKS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class AttachmentBuilder:
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


# MERGED client.mentions: Mentions in a prompt: `@path` names a file or folder that goes with it.
#
# The text of a prompt may come from anywhere, an issue tracker say. So a mention reaches only what lies in the session's
# folders, and no file that holds secrets; everything else has to be attached, which only the user can do.

_MENTION: Final = re.compile(
    r"""(?:(?<=[\s(\[{<"'`,;])|^)@(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'`<>]+))""", re.MULTILINE
)
_BEHIND: Final = ".,;:!?)]}>"


class PromptMentions(NamedTuple):
    """What a text mentions."""

    paths: tuple[str, ...]
    """Absolute, in the order of the text, each once."""
    notes: tuple[str, ...]
    """What looks like a mention and is sent as text alone."""


def mentions_in(
    text: str, folders: Sequence[str], instead: str = "--attach takes it along"
) -> PromptMentions:
    """The mentions of a text; relative paths count from the first folder. `instead` says how else a file goes with it."""
    roots = [os.path.realpath(folder) for folder in folders]
    paths: dict[str, None] = {}
    notes: dict[str, None] = {}
    for found in _MENTION.finditer(text.replace("\0", " ")):  # no path has that in it
        quoted = found[1] or found[2]
        for word in (quoted,) if quoted else _spellings(found[3]):
            path = os.path.normpath(os.path.join(folders[0], os.path.expanduser(word)))
            if not _exists(path):
                continue
            problem = _problem(path, roots)
            if problem is None:
                paths[path] = None
            else:
                notes[f"@{word} {problem}: it is sent as text; {instead}"] = None
            break
        else:
            word = quoted or found[3]
            if "/" in word.rstrip("/"):
                notes[f"@{word}: there is no such file; it is sent as text"] = None
    return PromptMentions(tuple(paths), tuple(notes))


def _spellings(word: str) -> Iterable[str]:
    """The word, then without the punctuation behind it."""
    yield word
    while word and word[-1] in _BEHIND:
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
        return "lies outside the session's folders"
    if is_secret(Path(path)) or is_secret(real):
        return "may hold secrets"
    return None
