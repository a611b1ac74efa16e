"""The summary of a session: its entry in a session list, computed from the records of its log alone."""

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
from accord.store.records import EVENT, SESSION, RecordGroup, events_in, payloads_in

FORMAT: Final = 1
"""The record format that this version writes."""

TITLE_LIMIT: Final = 200
PROMPT_TITLE_LIMIT: Final = 80
"""The length of a title that was made from a prompt."""
_MAX_PROMPT: Final = 4_000
_SECOND_MICROS: Final = 1_000_000


class ForkParent(Struct, frozen=True):
    """Where a fork branched off: it shares the records of that session up to `seq`."""

    session_id: str
    seq: int


class SessionSummary(Struct, frozen=True, kw_only=True):
    """The list entry of a session. Times are in microseconds since 1970."""

    session_id: str
    cwd: str
    agent: str = ""
    """The agent of the session, in a store of a client that uses several agents."""
    created: int
    updated: int
    """The last activity: exact at the start and end of a turn, within a second during it."""
    title: str | None = None
    title_set: bool = False
    """Whether the user chose the title. Generated titles do not replace it."""
    additional_directories: tuple[str, ...] = ()
    """The ones used last. Resuming a session does not restore them."""
    archived: bool = False
    parent: ForkParent | None = None
    format: int = FORMAT

    @property
    def is_used(self) -> bool:
        """Whether the session has a prompt, or a title or history without one."""
        return self.updated > self.created or self.title is not None or self.parent is not None

    def info(self) -> SessionInfo:
        """The entry of this session in the response to `session/list`."""
        return SessionInfo(
            self.session_id,
            self.cwd,
            list(self.additional_directories),
            UNSET if self.title is None else self.title,
            iso_time(self.updated),
            self.archived,
        )


class SessionPatch(Record, omit_defaults=True):
    """The payload of the store's own records. Members that are absent change nothing."""

    cwd: str | UnsetType = UNSET
    agent: str = ""
    additional_directories: list[str] | UnsetType = UNSET
    title: str | UnsetType | None = UNSET
    title_set: bool = False
    archived: bool | UnsetType = UNSET


SummaryEffect: TypeAlias = (
    Literal["activity", "turn_edge"] | TurnStarted | SessionOpened | SessionInfoUpdate | SessionPatch | None
)
"""How a record changes the summary: activity within a turn, the start or end of a turn, or the values it
holds."""

EFFECTS: Final[dict[type[Struct], Literal["activity", "turn_edge"]]] = {
    UserMessageChunk: "activity",
    AgentMessageChunk: "activity",
    AgentThoughtChunk: "activity",
    MessageChanged: "activity",
    ToolCallChanged: "activity",
    PlanChanged: "activity",
    TurnEnded: "turn_edge",
}
_EFFECTS_BY_TAG: Final[dict[str, SummaryEffect]] = {
    str(kind.__struct_config__.tag): effect for kind, effect in EFFECTS.items()
}
_VALUE_TAGS: Final = frozenset(
    {str(kind.__struct_config__.tag) for kind in (SessionOpened, SessionInfoUpdate, TurnStarted)}
)


class _Tag(Record):
    session_update: Any = None


_TAGS: Final = list[_Tag]


def effect_of(event: Event) -> SummaryEffect:
    """How an event changes the summary."""
    effect = EFFECTS.get(type(event))  # type: ignore[arg-type]  # an Unknown has no effect
    if effect is None and isinstance(event, SessionOpened | SessionInfoUpdate | TurnStarted):
        return event
    return effect


def effects_in(group: RecordGroup) -> list[SummaryEffect]:
    """How stored records change the summary. Only records that hold values themselves are decoded in full."""
    if group.kind == SESSION:
        return [decoder(SessionPatch).decode(raw) for raw in payloads_in([group])]
    if group.kind != EVENT:
        return []
    tags = [str(tag.session_update) for tag in decoder(_TAGS).decode(group.data)]
    if _VALUE_TAGS.isdisjoint(tags):
        return [_EFFECTS_BY_TAG.get(tag) for tag in tags]
    return [effect_of(event) for event in events_in([group], group.first, group.first + group.length)]


def first_summary(
    session_id: str, time: int, patch: SessionPatch, parent: ForkParent | None = None
) -> SessionSummary:
    """The summary after the first record of a session."""
    summary = SessionSummary(
        session_id=session_id, cwd=patch.cwd or "", agent=patch.agent, created=time, updated=time
    )
    return updated_summary(structs.replace(summary, parent=parent), time, [patch])


def opening_patch(cwd: str | None, agent: str, additional_directories: Iterable[str]) -> SessionPatch:
    """The first record of a new session."""
    return SessionPatch(
        cwd=UNSET if cwd is None else storable_text(cwd),
        agent=storable_text(agent),
        additional_directories=[storable_text(root) for root in additional_directories],
    )


def fork_patch(source: SessionSummary, requested: SessionPatch) -> SessionPatch:
    """The first record of a fork: it inherits the title as a generated one, but no additional directories."""
    return structs.replace(requested, cwd=requested.cwd or source.cwd, agent=source.agent, title=source.title)


def changes_summary(updated: int, time: int, effects: list[SummaryEffect]) -> bool:
    """Whether these effects can change a summary last updated then.

    Cheap: most commits are activity within a turn.
    """
    return any(effect != "activity" and effect is not None for effect in effects) or (
        "activity" in effects and time - updated >= _SECOND_MICROS
    )


def updated_summary(summary: SessionSummary, time: int, effects: list[SummaryEffect]) -> SessionSummary:
    """The summary after records of one time."""
    changed: dict[str, Any] = {}
    updated, title, title_set = summary.updated, summary.title, summary.title_set
    for effect in effects:
        if (
            effect == "turn_edge"
            or isinstance(effect, TurnStarted)
            or (effect == "activity" and time - updated >= _SECOND_MICROS)
        ):
            updated = changed["updated"] = max(updated, time)
        elif isinstance(effect, SessionOpened | SessionPatch) and effect.additional_directories is not UNSET:
            changed["additional_directories"] = tuple(map(storable_text, effect.additional_directories))
        if isinstance(effect, SessionInfoUpdate) and effect.title is not UNSET and not title_set:
            title = changed["title"] = clean_title(effect.title or "") or None
        elif isinstance(effect, TurnStarted) and not title and effect.prompt:
            # Until the agent or the user gives it another one.
            title = changed["title"] = title_of_prompt(effect.text) or None
        elif isinstance(effect, SessionPatch):
            if effect.title is not UNSET and (effect.title_set or not title_set):
                title = changed["title"] = effect.title
                title_set = changed["title_set"] = effect.title_set
            if effect.archived is not UNSET:
                changed["archived"] = effect.archived
    return structs.replace(summary, **changed) if changed else summary


def clean_title(title: str) -> str:
    """A title as it is stored: one line without control characters, at most `TITLE_LIMIT` long."""
    text = "".join([char if char.isprintable() else " " for char in storable_text(title)])
    return " ".join(text.split())[:TITLE_LIMIT].rstrip()


def title_of_prompt(text: str) -> str:
    """A title from a prompt: its first line with text, shortened at a word."""
    line = next((line for line in text[:_MAX_PROMPT].splitlines() if line.strip()), "")
    title = clean_title(line.lstrip("#>*- ") or line)
    if len(title) <= PROMPT_TITLE_LIMIT:
        return title
    return f"{title[:PROMPT_TITLE_LIMIT].rpartition(' ')[0] or title[:PROMPT_TITLE_LIMIT]}…"


def checked_title(title: str) -> str:
    """A title chosen by the user, cleaned. Raises InvalidParams if nothing is left of it."""
    cleaned = clean_title(title)
    if not cleaned:
        raise InvalidParams("The title is empty")
    return cleaned


def storable_text(text: str) -> str:
    """The text with lone surrogates replaced by question marks, so that it can be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def normalized_folder(cwd: str) -> str:
    """The spelling of a folder by which sessions are found."""
    return os.path.normpath(storable_text(cwd)) if cwd else ""


def now_micros() -> int:
    """The current time in microseconds since 1970."""
    return clock.time_ns() // 1000


def iso_time(micros: int) -> str:
    """The time in the format of the protocol."""
    return datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat(timespec="milliseconds")


def session_not_found(session_id: str) -> NotFound:
    """The protocol's error for a session that does not exist."""
    return NotFound("Session not found", {"sessionId": session_id})
