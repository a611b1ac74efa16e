"""Random histories go to version 2, back to events, to version 1, and back to events.

Nothing is lost that both versions can say.
"""

from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.repetitions import repetitions

from accord.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CompactionUpdate,
    ConfigOptionUpdate,
    Content,
    Diff,
    ImageContent,
    Notice,
    Plan,
    PlanEntry,
    ResourceLink,
    SessionConfigBoolean,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionInfoUpdate,
    SessionNotification,
    Terminal,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallLocation,
    UnstructuredCommandInput,
    UsageUpdate,
    UserMessageChunk,
    v2,
)
from accord.schema.codec import decode, decode_strict, encode, to_builtins
from accord.session import (
    SessionState,
    StateChanged,
    TerminalChanged,
    TerminalExit,
    ToolCallChanged,
    protocol_v1,
    protocol_v2,
)
from accord.session.terminal_state import BackgroundItem

texts = st.text(max_size=12)
names = st.text(min_size=1, max_size=8)
absent = st.just(UNSET)
blocks = st.one_of(
    texts.map(TextContent),
    st.builds(ImageContent, data=st.just("AA=="), mime_type=st.just("image/png")),
    st.builds(ResourceLink, name=names, uri=st.just("file:///x"), title=absent | texts),
)
ids = st.sampled_from(["a", "b", "c"])
chunks = st.one_of(
    [
        st.builds(kind, content=blocks, message_id=absent | ids)
        for kind in (UserMessageChunk, AgentMessageChunk, AgentThoughtChunk)
    ]
)
paths = names.map(lambda name: f"/x/{name}")
contents = st.one_of(
    blocks.map(Content),
    st.builds(Diff, path=paths, new_text=texts, old_text=st.none() | texts),
    ids.map(Terminal),
)
locations = st.builds(ToolCallLocation, path=paths, line=absent | st.integers(1, 1000))
members: dict[str, Any] = {
    "tool_call_id": ids,
    "kind": absent | st.sampled_from(["read", "edit", "execute", "other"]),
    "status": absent | st.sampled_from(["pending", "in_progress", "completed", "failed"]),
    "content": absent | st.lists(contents, max_size=3),
    "locations": absent | st.lists(locations, max_size=2),
    "raw_input": absent | st.dictionaries(texts, st.integers(-5, 5), max_size=2),
    "raw_output": absent | texts,
}
calls = st.builds(ToolCall, title=names, **members)
changes = st.builds(ToolCallChange, title=absent | names, **members)
entries = st.builds(
    PlanEntry,
    content=texts,
    priority=st.sampled_from(["high", "medium", "low"]),
    status=st.sampled_from(["pending", "in_progress", "completed"]),
)
choices = st.builds(SessionConfigSelectOption, value=names, name=names, description=absent | texts)
groups = st.builds(
    SessionConfigSelectGroup, group=names, name=names, options=st.lists(choices, min_size=1, max_size=2)
)
options = st.one_of(
    st.builds(SessionConfigBoolean, id=names, name=names, current_value=st.booleans()),
    st.builds(
        SessionConfigSelect,
        id=names,
        name=names,
        current_value=names,
        options=st.lists(choices, min_size=1, max_size=2) | st.lists(groups, min_size=1, max_size=2),
        category=absent | st.sampled_from(["mode", "model", "_x"]),
    ),
)
commands = st.builds(
    AvailableCommand,
    name=names,
    description=texts,
    input=absent | st.builds(UnstructuredCommandInput, hint=texts),
)
updates = st.one_of(
    chunks,
    chunks,
    calls,
    changes,
    st.builds(Plan, entries=st.lists(entries, max_size=3)),
    st.builds(AvailableCommandsUpdate, available_commands=st.lists(commands, max_size=2)),
    st.builds(ConfigOptionUpdate, config_options=st.lists(options, max_size=2)),
    st.builds(SessionInfoUpdate, title=absent | st.none() | texts),
    st.builds(UsageUpdate, used=st.integers(0, 9), size=st.integers(0, 9)),
    st.builds(Notice, severity=st.sampled_from(["info", "error"]), title=names),
    st.builds(CompactionUpdate, compaction_id=ids, status=st.sampled_from(["in_progress", "completed"])),
)


def said(state: SessionState) -> Any:
    """What a state holds that both versions can say."""
    return {
        "messages": [(message.kind, to_builtins(message.blocks)) for message in state.messages],
        "calls": [
            (call.tool_call_id, call.label, call.kind, call.status, to_builtins(call.content), call.locations)
            for call in state.tool_calls.values()
        ],
        "raw": [(call.raw_input, call.raw_output) for call in state.tool_calls.values()],
        "plan": state.plan,
        "order": [type(entry).__name__ for entry in state.timeline],
        "settings": state.settings.config_options,
        "commands": state.commands,
        "info": (state.title, state.usage, list(state.notices)),
        "compactions": [one.to_update() for one in state.history.compactions.values()],
    }


class Translation:
    """A history that goes from one version to the other."""

    def __init__(self) -> None:
        self.original = SessionState("s")
        self.second = SessionState("s")
        self.first = SessionState("s")
        self.ids = protocol_v2.MessageIds("m")

    def add(self, item: Any) -> None:
        event = self.original.apply(item)
        for update in protocol_v2.updates_of(event, self.ids):
            frame = encode(v2.UpdateSessionNotification("s", update))
            sent = decode_strict(v2.UpdateSessionNotification, frame).update
            for translated in protocol_v2.events_of(sent):
                self._add_in_version_1(self.second.apply(translated))

    def _add_in_version_1(self, event: Any) -> None:
        for update in protocol_v1.updates_of(event):
            frame = encode(SessionNotification("s", update))
            self.first.apply(decode(SessionNotification, frame).update)


@hypothesis_settings(max_examples=repetitions(150), deadline=None)
@given(st.lists(updates, max_size=12))
def test_nothing_is_lost_that_both_versions_can_say(history: list[Any]) -> None:
    translation = Translation()
    for item in history:
        translation.add(item)
    wanted = said(translation.original)
    assert said(translation.second) == wanted
    assert said(translation.first) == wanted


appended = st.builds(
    lambda id, item: ToolCallChanged(protocol_v1.ToolCallUpdate(id), append=[item]), ids, contents
)
terminals = st.builds(
    TerminalChanged,
    terminal_id=ids,
    command=absent | st.none() | names,
    cwd=absent | paths,
    output=absent | st.none() | st.just("w7Y="),
    append=st.sampled_from(["", "w6", "eA=="]),
    exit=absent | st.none() | st.builds(TerminalExit, exit_code=st.none() | st.integers(0, 255)),
    cancellable=absent | st.booleans(),
)
states = st.builds(
    StateChanged,
    state=st.sampled_from(["running", "idle", "requires_action", "_x"]),
    background=absent | st.lists(st.builds(BackgroundItem, kind=st.just("terminal"), id=ids), max_size=2),
)


@hypothesis_settings(max_examples=repetitions(100), deadline=None)
@given(st.lists(updates | appended | terminals | states, max_size=10))
def test_events_of_version_2_survive_its_messages(history: list[Any]) -> None:
    translation = Translation()
    for item in history:
        translation.add(item)
    original, second = translation.original, translation.second
    assert said(second) == said(original)
    assert second.terminals == original.terminals
    assert (second.activity, second.background) == (original.activity, original.background)
    assert [call.cancellable for call in second.tool_calls.values()] == [
        call.cancellable for call in original.tool_calls.values()
    ]
