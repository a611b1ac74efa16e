"""A recorded run as a script for a replay, and the differences between recorded and current messages.

Ids that each side generates count as equal if they are used consistently. A redacted value equals any value.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any, Final, cast

from msgspec import Struct, field

from accord.trace.secret_names import REDACTED, words
from accord.trace.trace_format import TraceEntry
from accord.trace.trace_steps import CallTracker, TraceStep, at
from accord.wire.envelope import id_key

GENERATED_MEMBERS: Final = frozenset(
    words(
        "sessionId toolCallId messageId terminalId requestId compactionId planId elicitationId cursor "
        "nextCursor updatedAt cwd"
    )
)
_TEXT_CHUNKS: Final = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
SESSION_UPDATES: Final = words(
    "available_commands_update usage_update session_info_update config_option_update current_mode_update"
)
"""Updates that belong to no turn and may arrive at any time."""
_ABSENT: Final = object()


class Difference(Struct, frozen=True):
    """One difference. `missing` names the side ("current" or "recorded") that has no value at this path."""

    path: str
    recorded: Any = None
    current: Any = None
    missing: str = ""

    def __str__(self) -> str:
        if self.missing == "current":
            return f"{self.path}: is missing, was {_shorten(self.recorded)}"
        if self.missing == "recorded":
            return f"{self.path}: is new, {_shorten(self.current)}"
        return f"{self.path}: was {_shorten(self.recorded)}, is {_shorten(self.current)}"


class ReplayMapping(Struct):
    """Maps generated ids and folders of the recording to current ones."""

    current: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    recorded: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    moved_folders: dict[str, str] = field(default_factory=dict[str, str])

    def matches(self, kind: str, recorded: str, current: str) -> bool:
        """Tell whether two ids can be the same. The first comparison binds them."""
        if kind == "cwd":
            if recorded != current:
                self.moved_folders.setdefault(recorded.rstrip("/"), current.rstrip("/"))
            return True
        bound_id = self.current.get((kind, recorded))
        if bound_id is not None or recorded == current:
            return bound_id in (None, current)
        if (kind, current) in self.recorded:
            return False
        self.bind(kind, recorded, current)
        return True

    def bind(self, kind: str, recorded: str, current: str) -> None:
        """Map a recorded id to a current one."""
        self.current[kind, recorded] = current
        self.recorded[kind, current] = recorded

    def to_current(self, value: Any) -> Any:
        """Return recorded JSON with current ids and folders; the same object if nothing changes."""
        if not self.current and not self.moved_folders:
            return value
        return self._to_current("", value)

    def current_path(self, text: str) -> str:
        """Return the current path for a recorded path or file URL."""
        for recorded_folder, current_folder in self.moved_folders.items():
            for scheme in ("", "file://"):
                prefix = scheme + recorded_folder
                if text == prefix or text.startswith(f"{prefix}/"):
                    return scheme + current_folder + text[len(prefix) :]
        return text

    def replace_folders(self, text: str) -> str:
        """Replace recorded folders by current ones anywhere in a text."""
        for recorded_folder, current_folder in self.moved_folders.items():
            text = text.replace(recorded_folder, current_folder)
        return text

    def _to_current(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.current.get((name, value)) or self.current_path(value)
        if isinstance(value, dict):
            return {key: self._to_current(key, item) for key, item in cast(dict[str, Any], value).items()}
        if isinstance(value, list):
            return [self._to_current(name, item) for item in cast(list[Any], value)]
        return value


def differences(
    recorded: Any,
    current: Any,
    mapping: ReplayMapping,
    *,
    path: str = "",
    ignore: Collection[str] = ("_meta",),
) -> Iterator[Difference]:
    """Yield every difference between recorded and current JSON.

    Members named in `ignore` are not compared.
    """
    if isinstance(recorded, dict) and isinstance(current, dict):
        recorded_members, current_members = cast(dict[str, Any], recorded), cast(dict[str, Any], current)
        for key in (*recorded_members, *(key for key in current_members if key not in recorded_members)):
            if key in ignore:
                continue
            recorded_value, current_value = (
                recorded_members.get(key, _ABSENT),
                current_members.get(key, _ABSENT),
            )
            member_path = f"{path}.{key}" if path else key
            if (
                key in GENERATED_MEMBERS
                and isinstance(recorded_value, str)
                and isinstance(current_value, str)
            ):
                if not mapping.matches(key, recorded_value, current_value):
                    yield Difference(member_path, recorded_value, current_value)
            elif recorded_value is _ABSENT:
                yield Difference(member_path, current=current_value, missing="recorded")
            elif current_value is _ABSENT:
                yield Difference(member_path, recorded=recorded_value, missing="current")
            else:
                yield from differences(
                    recorded_value, current_value, mapping, path=member_path, ignore=ignore
                )
    elif isinstance(recorded, list) and isinstance(current, list):
        recorded_items, current_items = cast(list[Any], recorded), cast(list[Any], current)
        for index in range(max(len(recorded_items), len(current_items))):
            item_path = f"{path}[{index}]"
            if index >= len(current_items):
                yield Difference(item_path, recorded=recorded_items[index], missing="current")
            elif index >= len(recorded_items):
                yield Difference(item_path, current=current_items[index], missing="recorded")
            else:
                yield from differences(
                    recorded_items[index], current_items[index], mapping, path=item_path, ignore=ignore
                )
    elif not _equal_values(recorded, current, mapping):
        yield Difference(path or "the whole value", recorded, current)


def turn_differences(
    recorded: list[Any], current: list[Any], mapping: ReplayMapping, *, ignore: Collection[str] = ("_meta",)
) -> Iterator[Difference]:
    """Yield the differences between the combined updates of two turns.

    An extra or missing update does not shift the others. Updates of the session (commands, titles, usage...)
    arrive at any time and are ignored.
    """
    recorded_updates, current_updates = combine_updates(recorded), combine_updates(current)
    matcher = SequenceMatcher(
        None,
        list(map(_update_kind, recorded_updates)),
        list(map(_update_kind, current_updates)),
        autojunk=False,
    )
    for operation, start, end, new_start, new_end in matcher.get_opcodes():
        pair_count = min(end - start, new_end - new_start) if operation in ("equal", "replace") else 0
        for offset in range(pair_count):
            path = f"updates[{new_start + offset}]"
            yield from differences(
                recorded_updates[start + offset],
                current_updates[new_start + offset],
                mapping,
                path=path,
                ignore=ignore,
            )
        for index in range(start + pair_count, end):
            yield Difference(f"updates[{index}]", recorded=recorded_updates[index], missing="current")
        for index in range(new_start + pair_count, new_end):
            yield Difference(f"updates[{index}]", current=current_updates[index], missing="recorded")


def order_differences(recorded: list[str], current: list[str]) -> Iterator[str]:
    """Yield the differences between two lists of methods. An extra or missing one shifts no others."""
    matcher = SequenceMatcher(None, recorded, current, autojunk=False)
    for operation, start, end, new_start, new_end in matcher.get_opcodes():
        if operation != "equal":
            for method in recorded[start:end]:
                yield f"requests: {method} is missing"
            for method in current[new_start:new_end]:
                yield f"requests: {method} is new"


def _update_kind(update: Any) -> str:
    return str(at(update, "sessionUpdate"))


def combine_updates(updates: list[Any]) -> list[Any]:
    """Combine the chunks of each message and the changes of each tool call into one update."""
    combined: list[Any] = []
    calls: dict[str, dict[str, Any]] = {}
    message: dict[str, Any] | None = None
    for update in updates:
        kind = at(update, "sessionUpdate")
        if kind in SESSION_UPDATES:
            continue
        if kind in _TEXT_CHUNKS and at(update, "content", "type") == "text":
            text = str(at(update, "content", "text"))
            if message is not None and message is combined[-1] and message["sessionUpdate"] == kind:
                message["text"] += text
            else:
                message = {"sessionUpdate": kind, "text": text}
                combined.append(message)
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


def _equal_values(recorded: Any, current: Any, mapping: ReplayMapping) -> bool:
    if isinstance(recorded, str):
        return REDACTED in recorded or recorded == current or mapping.replace_folders(recorded) == current
    return recorded == current and isinstance(recorded, bool) == isinstance(current, bool)


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."


class SessionScript(Struct, eq=False):
    """The messages of one session, from the call that opened it. `position` is the next step to play."""

    session: str
    steps: list[TraceStep] = field(default_factory=list[TraceStep])
    position: int = 0

    @property
    def finished(self) -> bool:
        """Whether all steps have been played."""
        return self.position >= len(self.steps)


class RecordedScript(Struct):
    """A whole run. Messages without a session are in `sessions[""]`.

    `exit` is the agent's exit if it ended by itself. `missing_parts` counts the parts that were not recorded.
    """

    steps: list[TraceStep]
    sessions: dict[str, SessionScript]
    exit: TraceEntry | None = None
    missing_parts: int = 0


def read_script(entries: Iterable[TraceEntry]) -> RecordedScript:
    """Return the script of one run."""
    tracker, steps, missing_parts = CallTracker(), list[TraceStep](), 0
    client_closed = agent_closed_first = False
    exit: TraceEntry | None = None
    for entry in entries:
        step = tracker.add(entry)
        if step.side is not None and entry.kind == "frame":
            steps.append(step)
        missing_parts += entry.kind in ("cut", "lost")
        if entry.kind == "closed":
            agent_closed_first |= entry.sender == "agent" and not client_closed
            client_closed |= entry.sender == "client"
        elif entry.kind == "exit":
            exit = entry
    sessions: dict[str, SessionScript] = {"": SessionScript("")}
    calls = {
        ("client", id_key(step.id)): step
        for step in steps
        if step.kind == "request" and step.side == "client"
    }
    last_session = ""
    for step in steps:
        session = step.session
        if step.method == "$/cancel_request" and not session:
            cancelled_call = calls.get((step.side or "", id_key(at(step.params, "requestId"))))
            session = cancelled_call.session if cancelled_call else ""
        elif step.kind == "noise":
            session = last_session  # replay it between the same messages
        last_session = session
        sessions.setdefault(session, SessionScript(session)).steps.append(step)
    return RecordedScript(steps, sessions, exit if agent_closed_first else None, missing_parts)
