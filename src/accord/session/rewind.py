"""The values of `_session/rewind`, and the marker of a rewound conversation.

The marker is the member `rewind` in the `_meta` of a `session_info_update`. Logs only grow: everything from
the named message on stays in the log, and readers hide it. A reader that does not know the marker ignores it.
"""

from typing import Any, Final, Literal, TypeAlias, cast

from msgspec import UNSET, Struct, UnsetType, ValidationError, convert, to_builtins

from accord.schema.content import ContentBlock

RewindScope: TypeAlias = Literal["files", "conversation", "both"]
"""What goes back."""


class RewindPoint(Struct, frozen=True, rename="camel"):
    """A message of the user that the session can go back to."""

    message_id: str
    title: str
    at: str = ""
    """When it was sent, in ISO 8601."""
    files: int = 0
    """How many files going back would change, as far as they are known."""


class RedoPoint(Struct, frozen=True, rename="camel"):
    """The rewind that `redo` takes back."""

    title: str
    scope: RewindScope


class RewindPoints(Struct, frozen=True, rename="camel"):
    """Where the session can go to: messages, the latest first, and back to before the last rewind."""

    points: list[RewindPoint]
    redo: RedoPoint | None = None


class SkippedFile(Struct, frozen=True):
    """A file that stays as it is."""

    path: str
    reason: str


class RewindResult(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a rewind has done, or would do."""

    can_rewind: bool
    files_changed: list[str] = []
    """The absolute paths of the files that came back."""
    insertions: int = 0
    deletions: int = 0
    """How many lines that adds and removes."""
    skipped: list[SkippedFile] = []
    notes: list[str] = []
    """What could not be followed, such as changes of commands outside of a repository."""
    title: str = ""
    prompt: list[ContentBlock] = []
    """The message that the conversation went back to, to edit it and send it again."""


REWIND: Final = "rewind"
TEXT_LIMIT: Final = 200


class RewindMarker(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Which messages are hidden from now on, or that the ones hidden last are shown again."""

    message_id: str | None = None
    """The first hidden message of the user."""
    messages: int = 0
    """How many messages of the user are hidden, for readers that know it without an id."""
    text: str = ""
    """How the first hidden message begins."""
    restored: bool = False
    """Whether the messages that were hidden last are shown again."""


def rewind_marker(meta: dict[str, Any] | UnsetType | None) -> RewindMarker | None:
    """The marker in the `_meta` of an update; None if there is none that can be read."""
    value = cast(Any, meta).get(REWIND) if meta and meta is not UNSET else None
    if not isinstance(value, dict):
        return None
    try:
        return convert(value, RewindMarker)
    except ValidationError:
        return None


def marker_meta(marker: RewindMarker) -> dict[str, Any]:
    """The `_meta` of the update that carries a marker."""
    return {REWIND: to_builtins(marker)}


def hidden_from(prompts: list[tuple[str | None, str]], marker: RewindMarker) -> int | None:
    """The position of the first hidden message among all messages of the user, as ids and texts.

    The message with the id, else the one with the text that is nearest to the expected position, else that
    position. None if there is no such message.
    """
    expected = len(prompts) - marker.messages
    for position, (message_id, _) in enumerate(prompts):
        if marker.message_id is not None and message_id == marker.message_id:
            return position
    similar = [
        position for position, (_, text) in enumerate(prompts) if text.strip()[:TEXT_LIMIT] == marker.text
    ]
    if marker.text and similar:
        return min(similar, key=lambda position: abs(position - expected))
    return expected if 0 <= expected < len(prompts) else None
