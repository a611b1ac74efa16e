"""Pages of a list: what is asked for, and the opaque cursor that says where the next page begins.

A cursor names the last session of its page, so that sessions which begin in the meantime shift nothing, and the question
it belongs to, so that it cannot go on with another one.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, Literal, NamedTuple, TypeAlias, cast, get_args
from zlib import crc32

from msgspec import MsgspecError, json

from accord.errors import InvalidParams, UsageError
from accord.store.heads import folder_of, plain

Archived: TypeAlias = Literal["exclude", "include", "only"]

PAGE_LIMIT: Final = 1000
_SHOWN: Final = 60


class Place(NamedTuple):
    """Where a session stands in the list: the newest first, and of equally new ones the one that began last."""

    updated: int
    number: int


class Question(NamedTuple):
    """What a list is asked for."""

    folder: str | None
    agent: str | None
    archived: Archived

    @property
    def mark(self) -> int:
        """A number that tells questions apart."""
        return crc32(json.encode(self))


def question(cwd: str | None, agent: str | None, archived: str | None, limit: int) -> Question:
    """Check what was asked. An unknown filter is refused, never read as another one."""
    if archived is None:
        archived = "exclude"
    if archived not in get_args(Archived):
        raise InvalidParams(f"archived: not one of exclude, include, only: {archived!r}")
    if not 1 <= limit <= PAGE_LIMIT:
        raise UsageError(f"a page has 1 to {PAGE_LIMIT} sessions, not {limit}")
    return Question(
        None if cwd is None else folder_of(cwd),
        None if agent is None else plain(agent),
        cast(Archived, archived),
    )


def cursor_of(asked: Question, place: Place) -> str:
    """The cursor behind this session."""
    return urlsafe_b64encode(_sealed(asked, place)).decode().rstrip("=")


def place_of(asked: Question, cursor: str) -> Place:
    """Where the next page begins. Raises InvalidParams for anything but a cursor of this very question."""
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        place = Place(*json.decode(text.partition(b".")[2], type=tuple[int, int]))
    except (ValueError, MsgspecError):
        raise _unknown(cursor) from None
    if cursor_of(asked, place) != cursor:
        raise _unknown(cursor)
    return place


def _sealed(asked: Question, place: Place) -> bytes:
    body = json.encode(tuple(place))
    return b"%08x." % crc32(body, asked.mark) + body


def _unknown(cursor: str) -> InvalidParams:
    shown = cursor if len(cursor) <= _SHOWN else cursor[:_SHOWN] + "..."
    return InvalidParams(f"Unknown cursor: {shown!r}")
