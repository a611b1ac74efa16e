"""A recorded run as a script, and where a replay differs from it."""

import json
from collections.abc import Collection, Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any, Final, cast

from msgspec import Struct, field

from accord.trace.secret_names import REDACTED, words
from accord.trace.trace_format import TraceEntry
from accord.trace.trace_steps import CallTracker, TraceStep, at, id_key

# MERGED trace.compare: Where two messages differ, with names that each side makes up itself taken for the same when they are used the same.
#
# A secret that was taken out of the recording fits anything.

MADE_UP: Final = frozenset(
    words(
        "sessionId toolCallId messageId terminalId requestId compactionId planId elicitationId cursor nextCursor updatedAt cwd"
    )
)
_CHUNKS: Final = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
OF_THE_SESSION: Final = words(
    "available_commands_update usage_update session_info_update config_option_update current_mode_update"
)
"""Updates that belong to no turn: they come at any time."""
_ABSENT: Final = object()


class Difference(Struct, frozen=True):
    """One place where something else came than was recorded; a side that has nothing there is None with `missing`."""

    path: str
    recorded: Any = None
    now: Any = None
    missing: str = ""

    def __str__(self) -> str:
        if self.missing == "now":
            return f"{self.path}: is missing, was {_shown(self.recorded)}"
        if self.missing == "recorded":
            return f"{self.path}: is new, {_shown(self.now)}"
        return f"{self.path}: was {_shown(self.recorded)}, is {_shown(self.now)}"


class NameMap(Struct):
    """Which made-up name of the recording stands for which of now, and which folder has moved where."""

    now: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    recorded: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    moved: dict[str, str] = field(default_factory=dict[str, str])

    def same(self, kind: str, recorded: str, now: str) -> bool:
        """Whether the two may be the same; from the first time on they are."""
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
        """The one stands for the other."""
        self.now[kind, recorded] = now
        self.recorded[kind, now] = recorded

    def to_now(self, value: Any) -> Any:
        """Recorded JSON with the names and the folders of now: the very same object where nothing changes."""
        if not self.now and not self.moved:
            return value
        return self._renamed("", value)

    def relocated(self, text: str) -> str:
        """A path of the recording where it is now."""
        for old, new in self.moved.items():
            for scheme in ("", "file://"):
                before = scheme + old
                if text == before or text.startswith(f"{before}/"):
                    return scheme + new + text[len(before) :]
        return text

    def reworded(self, text: str) -> str:
        """A text with the folders of now, wherever it names them."""
        for old, new in self.moved.items():
            text = text.replace(old, new)
        return text

    def _renamed(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.now.get((name, value)) or self.relocated(value)
        if isinstance(value, dict):
            return {key: self._renamed(key, item) for key, item in cast(dict[str, Any], value).items()}
        if isinstance(value, list):
            return [self._renamed(name, item) for item in cast(list[Any], value)]
        return value


def differences(
    recorded: Any, now: Any, names: NameMap, *, path: str = "", ignore: Collection[str] = ("_meta",)
) -> Iterator[Difference]:
    """Every place where `now` is not what was recorded; members called as in `ignore` are not looked at."""
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
        yield Difference(path or "all of it", recorded, now)


def turns_differ(
    recorded: list[Any], now: list[Any], names: NameMap, *, ignore: Collection[str] = ("_meta",)
) -> Iterator[Difference]:
    """Where the updates of a turn differ, in what they add up to; one more or one less does not shift the rest.

    What belongs to the session, not to the turn (commands, titles, usage...), comes at any time and is left out.
    """
    before, after = folded(recorded), folded(now)
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
    """Where two rows of methods differ; one more or one less does not shift the rest."""
    matched = SequenceMatcher(None, recorded, now, autojunk=False)
    for what, old, old_end, new, new_end in matched.get_opcodes():
        if what != "equal":
            for method in recorded[old:old_end]:
                yield f"requests: {method} is missing"
            for method in now[new:new_end]:
                yield f"requests: {method} is new"


def _kind(update: Any) -> str:
    return str(at(update, "sessionUpdate"))


def folded(updates: list[Any]) -> list[Any]:
    """Updates as what they add up to: pieces of one message joined, changes of one tool call laid over each other."""
    folded: list[Any] = []
    calls: dict[str, dict[str, Any]] = {}
    joined: dict[str, Any] | None = None
    for update in updates:
        kind = at(update, "sessionUpdate")
        if kind in OF_THE_SESSION:
            continue
        if kind in _CHUNKS and at(update, "content", "type") == "text":
            text = str(at(update, "content", "text"))
            if joined is not None and joined is folded[-1] and joined["sessionUpdate"] == kind:
                joined["text"] += text
            else:
                joined = {"sessionUpdate": kind, "text": text}
                folded.append(joined)
        elif kind in ("tool_call", "tool_call_update") and isinstance(update, dict):
            members = cast(dict[str, Any], update)
            name = id_key(members.get("toolCallId"))  # what a peer sends there may be anything
            call = calls.get(name)
            if call is None:
                call = calls[name] = {}
                folded.append(call)
            call.update({key: value for key, value in members.items() if value is not None})
            call["sessionUpdate"] = "tool_call"
        else:
            folded.append(update if isinstance(update, dict) else {"sessionUpdate": kind, "update": update})
    return folded


def _equal(recorded: Any, now: Any, names: NameMap) -> bool:
    if isinstance(recorded, str):
        return REDACTED in recorded or recorded == now or names.reworded(recorded) == now
    return recorded == now and isinstance(recorded, bool) == isinstance(now, bool)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."


# MERGED trace.script: A recorded run as something to play again: what each side said, session by session, in order.
#
# A session's lane begins with the call that made or named it; what belongs to none is in the lane called "".


class SessionScript(Struct, eq=False):
    """What was said in one session. `place` is how far the play has come."""

    session: str
    steps: list[TraceStep] = field(default_factory=list[TraceStep])
    place: int = 0

    @property
    def over(self) -> bool:
        """Whether all of it is played."""
        return self.place >= len(self.steps)


class RecordedScript(Struct):
    """A whole run. `exit` is how the agent ended, where it did so by itself; `left_out` what cannot be played."""

    steps: list[TraceStep]
    lanes: dict[str, SessionScript]
    exit: TraceEntry | None = None
    left_out: int = 0

    @property
    def redactions(self) -> int:
        """How many messages of the recording had a secret taken out."""
        return sum(step.entry.redacted for step in self.steps)


def read_script(entries: Iterable[TraceEntry]) -> RecordedScript:
    """The script of one run."""
    exchange, steps, left_out = CallTracker(), list[TraceStep](), 0
    client_closed = agent_left = False
    exit: TraceEntry | None = None
    for entry in entries:
        step = exchange.take(entry)
        if step.side is not None and entry.kind == "frame":
            steps.append(step)
        left_out += entry.kind in ("cut", "lost")
        if entry.kind == "closed":
            agent_left |= entry.sender == "agent" and not client_closed
            client_closed |= entry.sender == "client"
        elif entry.kind == "exit":
            exit = entry
    lanes: dict[str, SessionScript] = {"": SessionScript("")}
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
            session = last  # it came between messages of this session, so it comes there again
        last = session
        lanes.setdefault(session, SessionScript(session)).steps.append(step)
    return RecordedScript(steps, lanes, exit if agent_left else None, left_out)
