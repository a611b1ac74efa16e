"""Property tests: any sequence of updates keeps all text, reopens no finished call, survives a snapshot."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.repetitions import repetitions

from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    SessionNotification,
    TextContent,
    Unknown,
    UserMessageChunk,
)
from accord.schema.codec import decode, encode, read
from accord.schema.validation import violations
from accord.session import (
    Entry,
    Event,
    PermissionAnswered,
    ReplayEnded,
    ReplayStarted,
    SessionOpened,
    SessionState,
    ToolCallChanged,
    ToolCallState,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
    protocol_v1,
    text_of,
)

ids = st.sampled_from(["a", "b", "c"])
words = st.text(max_size=4)
sampled = st.sampled_from
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)


def sparse(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any subset of these members, each valid, null or random JSON."""
    return st.fixed_dictionaries(
        {}, optional={key: value | st.none() | junk for key, value in members.items()}
    )


meta = st.dictionaries(words, junk, max_size=2)
text_block = st.fixed_dictionaries({"type": st.just("text"), "text": words}, optional={"_meta": meta})
image_block = st.fixed_dictionaries({"type": st.just("image"), "data": words, "mimeType": words})
block = text_block | image_block
blocks = st.lists(block | junk, max_size=3)
tool_content = st.lists(
    st.fixed_dictionaries({"type": st.just("content"), "content": block})
    | st.fixed_dictionaries({"type": st.just("terminal"), "terminalId": ids})
    | st.fixed_dictionaries({"type": st.just("diff"), "path": words, "newText": words})
    | junk,
    max_size=3,
)
entries = st.lists(
    st.fixed_dictionaries(
        {"content": words, "priority": sampled(["low", "?"]), "status": st.just("pending")}
    ),
    max_size=2,
)
plan = (
    st.fixed_dictionaries({"type": st.just("items"), "planId": ids, "entries": entries})
    | st.fixed_dictionaries({"type": st.just("markdown"), "planId": ids, "content": words})
    | st.fixed_dictionaries({"type": st.just("file"), "planId": ids, "uri": words})
)
choices = st.lists(st.fixed_dictionaries({"value": ids, "name": words}), max_size=2)
option = st.fixed_dictionaries(
    {
        "type": sampled(["select", "slider"]),
        "id": ids,
        "name": words,
        "currentValue": ids,
        "options": choices,
    },
    optional={"category": sampled(["mode", "model", "_x"])},
) | st.fixed_dictionaries(
    {"type": st.just("boolean"), "id": ids, "name": words, "currentValue": st.booleans()}
)
status = sampled(["pending", "in_progress", "completed", "failed", "cancelled", "?"])
call = sparse(
    kind=sampled(["read", "edit", "zzz"]),
    status=status,
    content=tool_content,
    locations=st.lists(st.fixed_dictionaries({"path": words}), max_size=2),
    rawInput=junk,
    rawOutput=junk,
    name=words,
    _meta=meta,
)


def update(
    tag: str,
    needed: dict[str, st.SearchStrategy[Any]],
    extra: st.SearchStrategy[dict[str, Any]] | None = None,
) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda base, more: {**more, **base, "sessionUpdate": tag},
        st.fixed_dictionaries(needed),
        extra if extra is not None else st.just({}),
    )


chunks = st.one_of(
    [
        update(tag, {"content": block}, sparse(messageId=ids, _meta=meta))
        for tag in ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
    ]
)
calls = update("tool_call", {"toolCallId": ids, "title": words}, call) | update(
    "tool_call_update", {"toolCallId": ids}, call
)
others = st.one_of(
    update("plan", {"entries": entries}),
    update("plan_update", {"plan": plan}),
    update("plan_removed", {"planId": ids}),
    update("available_commands_update", {"availableCommands": st.lists(junk, max_size=2)}),
    update("current_mode_update", {"currentModeId": ids}),
    update("config_option_update", {"configOptions": st.lists(option | junk, max_size=3)}),
    update("session_info_update", {}, sparse(title=words, updatedAt=words)),
    update("usage_update", {"used": st.integers(0, 9), "size": st.integers(0, 9)}, sparse(cost=junk)),
    update(
        "notice", {"severity": words, "title": st.text(min_size=1, max_size=4)}, sparse(description=words)
    ),
    update("compaction_update", {"compactionId": ids, "status": words}, sparse(summary=blocks, error=words)),
    update("compaction_summary_chunk", {"compactionId": ids, "content": block}),
    update(
        "subagent_update",
        {"sessionId": ids},
        st.fixed_dictionaries({}, optional={"cwd": st.none() | words, "title": junk, "state": junk}),
    ),
    update("session_message", {"messageId": ids}, sparse(senderSessionId=ids, content=blocks)),
    update("session_message_chunk", {"messageId": ids, "content": block}),
    update("vendor_thing", {"x": junk}),
)
anything = chunks | calls | others
turns = sampled(
    [
        TurnStarted([TextContent(text="ab")]),
        TurnCancelling(),
        TurnEnded("end_turn", "end_turn"),
        ReplayStarted(),
        ReplayEnded(),
        PermissionAnswered("1"),
    ]
)


def from_wire(raw: dict[str, Any]) -> Any:
    return read(SessionNotification, {"sessionId": "s", "update": raw}).update


def replayed(events: list[Event]) -> SessionState:
    state = SessionState()
    for event in events:
        state.apply(event)
    return state


def test_the_snapshot_of_a_new_session_has_nothing_that_the_agent_did_not_send() -> None:
    (opened,) = SessionState("s", "/home/me").snapshot()
    assert isinstance(opened, SessionOpened)


@settings(max_examples=repetitions(300), deadline=None)
@given(st.lists(anything.map(from_wire) | turns, max_size=25))
def test_any_sequence_is_accepted_and_its_snapshot_restores_the_same_state(items: list[Any]) -> None:
    state = SessionState("s", "/home/me")
    for item in items:
        state.apply(item)
    again = replayed(state.snapshot())
    assert again.snapshot() == state.snapshot()
    assert again.timeline == state.timeline
    assert again.history.terminals == state.history.terminals
    assert (again.commands, again.title, again.updated_at) == (state.commands, state.title, state.updated_at)
    assert again.settings.pickers == state.settings.pickers
    assert again.settings.current_mode_id == state.settings.current_mode_id
    assert (again.usage, again.plan, again.cwd) == (state.usage, state.plan, state.cwd)


@settings(max_examples=repetitions(200), deadline=None)
@given(st.lists((chunks | calls | others).map(from_wire), max_size=25))
def test_no_text_is_lost_duplicated_or_reordered(items: list[Any]) -> None:
    state = SessionState()
    texts_by_index: dict[int, list[str]] = {}
    kinds = {UserMessageChunk: "user", AgentMessageChunk: "agent", AgentThoughtChunk: "thought"}
    for item in items:
        lengths = [len(message.text) for message in state.messages]
        state.apply(item)
        if type(item) in kinds and text_of(item):
            grown = [
                place
                for place, message in enumerate(state.messages)
                if len(message.text) > (lengths[place] if place < len(lengths) else 0)
            ]
            assert len(grown) == 1
            assert state.messages[grown[0]].kind == kinds[type(item)]
            texts_by_index.setdefault(grown[0], []).append(text_of(item))
    assert {place: "".join(texts) for place, texts in texts_by_index.items()} == {
        place: message.text for place, message in enumerate(state.messages) if message.text
    }


@settings(max_examples=repetitions(200), deadline=None)
@given(st.lists(words, max_size=30))
def test_a_message_is_the_concatenation_of_its_chunks(texts: list[str]) -> None:
    state = SessionState()
    for piece in texts:
        state.apply(AgentMessageChunk(content=TextContent(text=piece)))
    assert "".join(message.text for message in state.messages) == "".join(texts)
    assert len(state.messages) == (1 if texts else 0)


@settings(max_examples=repetitions(200), deadline=None)
@given(
    st.lists(
        calls.map(from_wire) | turns.filter(lambda event: not isinstance(event, ReplayStarted)), max_size=25
    )
)
def test_a_finished_tool_call_is_never_reopened(items: list[Any]) -> None:
    state = SessionState()
    finished: set[str] = set()
    for item in items:
        event = state.apply(item)
        if isinstance(event, ToolCallChanged):
            assert event.call == state.tool_calls[event.patch.tool_call_id]
        for call_id, one in state.tool_calls.items():
            assert one.finished or call_id not in finished
            if one.finished:
                finished.add(call_id)


@settings(max_examples=repetitions(200), deadline=None)
@given(st.lists(anything.map(from_wire), max_size=15))
def test_forwarding_updates_live_or_from_a_snapshot_gives_the_same_history(items: list[Any]) -> None:
    state, live, late = SessionState(), SessionState(), SessionState()
    for item in items:
        forward(live, state.apply(item))
    for event in state.snapshot():
        forward(late, event)
    assert [summary(entry) for entry in live.timeline] == [summary(entry) for entry in state.timeline]
    # Version 1 cannot mark where a message without an id ends, so a replay may join adjacent messages.
    for kind in ("user", "agent", "thought"):
        assert text_by_kind(kind, late) == text_by_kind(kind, state)
    assert [summary(call) for call in late.tool_calls.values()] == [
        summary(call) for call in state.tool_calls.values()
    ]
    assert late.history.plans == state.history.plans


def summary(entry: Entry) -> Any:
    """The item itself. A tool call without its title, because version 1 requires one in the announcement."""
    if isinstance(entry, ToolCallState):
        return structs.replace(entry, title="", announced=True)
    return entry


def text_by_kind(kind: str, state: SessionState) -> str:
    return "".join(message.text for message in state.messages if message.kind == kind)


def forward(other: SessionState, event: Event) -> None:
    for update in protocol_v1.updates_of(event):
        raw = encode({"sessionId": "s", "update": update})
        if not isinstance(update, Unknown):
            assert violations(SessionNotification, json.loads(raw)) == []
        other.apply(decode(SessionNotification, raw).update)
