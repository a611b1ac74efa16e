"""A recorded run as a script for a replay, and the differences between recorded and current messages.

Ids that each side makes up count as equal if they are used consistently. A redacted value equals any value.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any, Final, cast

from msgspec import Struct, field

from accord.trace.secret_names import REDACTED, words
from accord.trace.trace_format import TraceEntry
from accord.trace.trace_steps import CallTracker, TraceStep, at, id_key

MADE_UP: Final = frozenset(
    words(
        "sessionId toolCallId messageId terminalId requestId compactionId planId elicitationId cursor "
        "nextCursor updatedAt cwd"
    )
)
_CHUNKS: Final = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
OF_THE_SESSION: Final = words(
    "available_commands_update usage_update session_info_update config_option_update current_mode_update"
)
"""Updates that belong to no turn and may arrive at any time."""
_ABSENT: Final = object()


class Difference(Struct, frozen=True):
    """One difference. `missing` names the side ("now" or "recorded") that has no value there."""

    path: str
    recorded: Any = None
    now: Any = None
    missing: str = ""

    def __str__(self) -> str:
        if self.missing == "now":
            return f"{self.path}: is missing, was {_short(self.recorded)}"
        if self.missing == "recorded":
            return f"{self.path}: is new, {_short(self.now)}"
        return f"{self.path}: was {_short(self.recorded)}, is {_short(self.now)}"


class NameMap(Struct):
    """Maps made-up ids of the recording to current ones, and recorded folders to current ones."""

    now: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    recorded: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    moved: dict[str, str] = field(default_factory=dict[str, str])

    def same(self, kind: str, recorded: str, now: str) -> bool:
        """Tell whether two ids can be the same. The first comparison binds them."""
        if kind == "cwd":
            if recorded != now:
                self.moved.setdefault(recorded.rstrip("/"), now.rstrip("/"))
            return True
        known = self.now.get((kind, recorded))
        if known is not None or recorded == now:
            return known in (None, now)
        if (kind, now) in self.recorded:
            return False
        self.bind(kind, recorded, now)
        return True

    def bind(self, kind: str, recorded: str, now: str) -> None:
        """Map a recorded id to a current one."""
        self.now[kind, recorded] = now
        self.recorded[kind, now] = recorded

    def to_now(self, value: Any) -> Any:
        """Return recorded JSON with current ids and folders; the same object if nothing changes."""
        if not self.now and not self.moved:
            return value
        return self._rename("", value)

    def move_path(self, text: str) -> str:
        """Return the current path for a recorded path or file URL."""
        for old, new in self.moved.items():
            for scheme in ("", "file://"):
                before = scheme + old
                if text == before or text.startswith(f"{before}/"):
                    return scheme + new + text[len(before) :]
        return text

    def move_paths_in(self, text: str) -> str:
        """Replace recorded folders by current ones anywhere in a text."""
        for old, new in self.moved.items():
            text = text.replace(old, new)
        return text

    def _rename(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.now.get((name, value)) or self.move_path(value)
        if isinstance(value, dict):
            return {key: self._rename(key, item) for key, item in cast(dict[str, Any], value).items()}
        if isinstance(value, list):
            return [self._rename(name, item) for item in cast(list[Any], value)]
        return value


def differences(
    recorded: Any, now: Any, names: NameMap, *, path: str = "", ignore: Collection[str] = ("_meta",)
) -> Iterator[Difference]:
    """Yield every difference between recorded and current JSON.

    Members named in `ignore` are not compared.
    """
    if isinstance(recorded, dict) and isinstance(now, dict):
        olds, news = cast(dict[str, Any], recorded), cast(dict[str, Any], now)
        for key in (*olds, *(key for key in news if key not in olds)):
            if key in ignore:
                continue
            old, new = olds.get(key, _ABSENT), news.get(key, _ABSENT)
            place = f"{path}.{key}" if path else key
            if key in MADE_UP and isinstance(old, str) and isinstance(new, str):
                if not names.same(key, old, new):
                    yield Difference(place, old, new)
            elif old is _ABSENT:
                yield Difference(place, now=new, missing="recorded")
            elif new is _ABSENT:
                yield Difference(place, recorded=old, missing="now")
            else:
                yield from differences(old, new, names, path=place, ignore=ignore)
    elif isinstance(recorded, list) and isinstance(now, list):
        before, after = cast(list[Any], recorded), cast(list[Any], now)
        for place in range(max(len(before), len(after))):
            here = f"{path}[{place}]"
            if place >= len(after):
                yield Difference(here, recorded=before[place], missing="now")
            elif place >= len(before):
                yield Difference(here, now=after[place], missing="recorded")
            else:
                yield from differences(before[place], after[place], names, path=here, ignore=ignore)
    elif not _equal(recorded, now, names):
        yield Difference(path or "the whole value", recorded, now)


def turns_differ(
    recorded: list[Any], now: list[Any], names: NameMap, *, ignore: Collection[str] = ("_meta",)
) -> Iterator[Difference]:
    """Yield the differences between the combined updates of two turns.

    An extra or missing one shifts nothing. Updates of the session (commands, titles, usage...) arrive at any
    time and are ignored.
    """
    before, after = combine_updates(recorded), combine_updates(now)
    matched = SequenceMatcher(None, list(map(_kind, before)), list(map(_kind, after)), autojunk=False)
    for what, old, old_end, new, new_end in matched.get_opcodes():
        pairs = min(old_end - old, new_end - new) if what in ("equal", "replace") else 0
        for step in range(pairs):
            path = f"updates[{new + step}]"
            yield from differences(before[old + step], after[new + step], names, path=path, ignore=ignore)
        for place in range(old + pairs, old_end):
            yield Difference(f"updates[{place}]", recorded=before[place], missing="now")
        for place in range(new + pairs, new_end):
            yield Difference(f"updates[{place}]", now=after[place], missing="recorded")


def orders_differ(recorded: list[str], now: list[str]) -> Iterator[str]:
    """Yield the differences between two lists of methods. An extra or missing one shifts nothing."""
    matched = SequenceMatcher(None, recorded, now, autojunk=False)
    for what, old, old_end, new, new_end in matched.get_opcodes():
        if what != "equal":
            for method in recorded[old:old_end]:
                yield f"requests: {method} is missing"
            for method in now[new:new_end]:
                yield f"requests: {method} is new"


def _kind(update: Any) -> str:
    return str(at(update, "sessionUpdate"))


def combine_updates(updates: list[Any]) -> list[Any]:
    """Combine the chunks of each message and the changes of each tool call into one update."""
    combined: list[Any] = []
    calls: dict[str, dict[str, Any]] = {}
    joined: dict[str, Any] | None = None
    for update in updates:
        kind = at(update, "sessionUpdate")
        if kind in OF_THE_SESSION:
            continue
        if kind in _CHUNKS and at(update, "content", "type") == "text":
            text = str(at(update, "content", "text"))
            if joined is not None and joined is combined[-1] and joined["sessionUpdate"] == kind:
                joined["text"] += text
            else:
                joined = {"sessionUpdate": kind, "text": text}
                combined.append(joined)
        elif kind in ("tool_call", "tool_call_update") and isinstance(update, dict):
            members = cast(dict[str, Any], update)
            name = id_key(members.get("toolCallId"))  # a peer may send any JSON here
            call = calls.get(name)
            if call is None:
                call = calls[name] = {}
                combined.append(call)
            call.update({key: value for key, value in members.items() if value is not None})
            call["sessionUpdate"] = "tool_call"
        else:
            combined.append(update if isinstance(update, dict) else {"sessionUpdate": kind, "update": update})
    return combined


def _equal(recorded: Any, now: Any, names: NameMap) -> bool:
    if isinstance(recorded, str):
        return REDACTED in recorded or recorded == now or names.move_paths_in(recorded) == now
    return recorded == now and isinstance(recorded, bool) == isinstance(now, bool)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."


class SessionScript(Struct, eq=False):
    """The messages of one session, from the call that opened it. `place` is the next step to play."""

    session: str
    steps: list[TraceStep] = field(default_factory=list[TraceStep])
    place: int = 0

    @property
    def over(self) -> bool:
        """Whether all steps are played."""
        return self.place >= len(self.steps)


class RecordedScript(Struct):
    """A whole run. Messages without a session are in `sessions[""]`.

    `exit` is the agent's exit if it ended by itself. `left_out` counts the parts that were not recorded.
    """

    steps: list[TraceStep]
    sessions: dict[str, SessionScript]
    exit: TraceEntry | None = None
    left_out: int = 0

    @property
    def redactions(self) -> int:
        """How many messages of the recording are redacted."""
        return sum(step.entry.redacted for step in self.steps)


def read_script(entries: Iterable[TraceEntry]) -> RecordedScript:
    """Return the script of one run."""
    tracker, steps, left_out = CallTracker(), list[TraceStep](), 0
    client_closed = agent_left = False
    exit: TraceEntry | None = None
    for entry in entries:
        step = tracker.add(entry)
        if step.side is not None and entry.kind == "frame":
            steps.append(step)
        left_out += entry.kind in ("cut", "lost")
        if entry.kind == "closed":
            agent_left |= entry.sender == "agent" and not client_closed
            client_closed |= entry.sender == "client"
        elif entry.kind == "exit":
            exit = entry
    sessions: dict[str, SessionScript] = {"": SessionScript("")}
    calls = {
        ("client", id_key(step.id)): step
        for step in steps
        if step.kind == "request" and step.side == "client"
    }
    last = ""
    for step in steps:
        session = step.session
        if step.method == "$/cancel_request" and not session:
            named = calls.get((step.side or "", id_key(at(step.params, "requestId"))))
            session = named.session if named else ""
        elif step.kind == "noise":
            session = last  # replay it between the same messages
        last = session
        sessions.setdefault(session, SessionScript(session)).steps.append(step)
    return RecordedScript(steps, sessions, exit if agent_left else None, left_out)
