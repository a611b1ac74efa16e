"""The head of a session: what a list shows of it, folded from the records of its log and nothing else."""

import os
import time as clock
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, structs

from accord.errors import InvalidParams, NotFound
from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Record,
    SessionInfo,
    SessionInfoUpdate,
    UserMessageChunk,
)
from accord.schema.codec import decoder
from accord.session import (
    Event,
    MessageChanged,
    PlanChanged,
    SessionOpened,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
)
from accord.store.records import EVENT, SESSION, RecordGroup, events_in, raws_in

FORMAT: Final = 1
"""The format in which this version writes a session's records."""

TITLE_LIMIT: Final = 200
_SECOND: Final = 1_000_000


class ForkParent(Struct, frozen=True):
    """Where a fork branched off: it shares the records of that session up to this one."""

    session_id: str
    seq: int


class SessionSummary(Struct, frozen=True, kw_only=True):
    """A session as a list shows it. Times are in microseconds since 1970."""

    session_id: str
    cwd: str
    agent: str = ""
    """Whose session it is, where a client keeps the sessions of several agents."""
    created: int
    updated: int
    """When something was last said or done: exact at the edges of a turn, within a second while it runs."""
    title: str | None = None
    title_set: bool = False
    """Whether the user chose the title; then no generated one replaces it."""
    additional_directories: tuple[str, ...] = ()
    """Those last used. They are never restored by themselves."""
    archived: bool = False
    parent: ForkParent | None = None
    format: int = FORMAT

    def info(self) -> SessionInfo:
        """The entry of this session in the answer to `session/list`."""
        return SessionInfo(
            self.session_id,
            self.cwd,
            list(self.additional_directories),
            self.title,
            iso_time(self.updated),
            self.archived,
        )


class SessionPatch(Record, omit_defaults=True):
    """The payload of the store's own records: what is said about the session; absent keeps."""

    cwd: str | UnsetType = UNSET
    agent: str = ""
    additional_directories: list[str] | UnsetType = UNSET
    title: str | UnsetType | None = UNSET
    title_set: bool = False
    archived: bool | UnsetType = UNSET


News: TypeAlias = Literal["talk", "edge"] | SessionOpened | SessionInfoUpdate | SessionPatch | None
"""What a record means for the head: that the conversation goes on, that a turn begins or ends, or what it says itself."""

_NEWS: Final[dict[type[Struct], Literal["talk", "edge"]]] = {
    UserMessageChunk: "talk",
    AgentMessageChunk: "talk",
    AgentThoughtChunk: "talk",
    MessageChanged: "talk",
    ToolCallChanged: "talk",
    PlanChanged: "talk",
    TurnStarted: "edge",
    TurnEnded: "edge",
}
_BY_TAG: Final[dict[str, News]] = {str(kind.__struct_config__.tag): news for kind, news in _NEWS.items()}
_TOLD: Final = frozenset({str(kind.__struct_config__.tag) for kind in (SessionOpened, SessionInfoUpdate)})


class _Tag(Record):
    session_update: Any = None


_TAGS: Final = list[_Tag]


def news_of(event: Event) -> News:
    """What an event means for the head."""
    news = _NEWS.get(type(event))  # type: ignore[arg-type]  # an Unknown has no news
    if news is None and isinstance(event, SessionOpened | SessionInfoUpdate):
        return event
    return news


def news_in(run: RecordGroup) -> list[News]:
    """The same for stored records: only what says something itself is read in full."""
    if run.kind == SESSION:
        return [decoder(SessionPatch).decode(raw) for raw in raws_in([run])]
    if run.kind != EVENT:
        return []
    tags = [str(tag.session_update) for tag in decoder(_TAGS).decode(run.data)]
    if _TOLD.isdisjoint(tags):
        return [_BY_TAG.get(tag) for tag in tags]
    return [news_of(event) for event in events_in([run], run.first, run.first + run.length)]


def begin(
    session_id: str, time: int, patch: SessionPatch, parent: ForkParent | None = None
) -> SessionSummary:
    """The head right after the first record of a session."""
    head = SessionSummary(
        session_id=session_id, cwd=patch.cwd or "", agent=patch.agent, created=time, updated=time
    )
    return fold(structs.replace(head, parent=parent), time, [patch])


def opening(cwd: str | None, agent: str, additional_directories: Iterable[str]) -> SessionPatch:
    """What the first record of a session says."""
    return SessionPatch(
        cwd=UNSET if cwd is None else plain(cwd),
        agent=plain(agent),
        additional_directories=[plain(root) for root in additional_directories],
    )


def forked(source: SessionSummary, asked: SessionPatch) -> SessionPatch:
    """What the first record of a fork says: the title comes along as a generated one, the additional directories do not."""
    return structs.replace(asked, cwd=asked.cwd or source.cwd, agent=source.agent, title=source.title)


def changes_head(updated: int, time: int, news: list[News]) -> bool:
    """Whether folding these can change a head that was last updated then. Cheap: most commits only go on talking."""
    return any(one != "talk" and one is not None for one in news) or (
        "talk" in news and time - updated >= _SECOND
    )


def fold(head: SessionSummary, time: int, news: list[News]) -> SessionSummary:
    """The head after records of one time."""
    changed: dict[str, Any] = {}
    updated, title_set = head.updated, head.title_set
    for one in news:
        if one == "edge" or (one == "talk" and time - updated >= _SECOND):
            updated = changed["updated"] = max(updated, time)
        elif isinstance(one, SessionOpened | SessionPatch) and one.additional_directories is not UNSET:
            changed["additional_directories"] = tuple(map(plain, one.additional_directories))
        if isinstance(one, SessionInfoUpdate) and one.title is not UNSET and not title_set:
            changed["title"] = tidy(one.title or "") or None
        elif isinstance(one, SessionPatch):
            if one.title is not UNSET and (one.title_set or not title_set):
                changed["title"] = one.title
                title_set = changed["title_set"] = one.title_set
            if one.archived is not UNSET:
                changed["archived"] = one.archived
    return structs.replace(head, **changed) if changed else head


def tidy(title: str) -> str:
    """A title as it is stored: one line without control characters, of bounded length."""
    line = "".join([mark if mark.isprintable() else " " for mark in plain(title)])
    return " ".join(line.split())[:TITLE_LIMIT].rstrip()


def chosen_title(title: str) -> str:
    """A title that somebody chose, tidied. Raises InvalidParams where nothing is left of it."""
    tidied = tidy(title)
    if not tidied:
        raise InvalidParams("The title is empty")
    return tidied


def plain(text: str) -> str:
    """The text as any file can hold it: lone surrogates become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def folder_of(cwd: str) -> str:
    """The spelling of a folder by which sessions are found."""
    return os.path.normpath(plain(cwd)) if cwd else ""


def micros() -> int:
    """The time now."""
    return clock.time_ns() // 1000


def iso_time(micros: int) -> str:
    """The time in the form of the protocol."""
    return datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat(timespec="milliseconds")


def no_session(session_id: str) -> NotFound:
    """The protocol's error for a session that does not exist, or no longer."""
    return NotFound("Session not found", {"sessionId": session_id})
