"""Every recorded message that Accord sent, checked by Accord's schema and the official one."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.interop.conversation import Conversation
from tests.interop.pairs import OFFICIAL_CLIENTS, OUR_AGENT, OUR_CLIENT, OUR_CLIENT_REMOTE, for_pairs
from tests.interop.wire_record import Message, Side

KNOWN_COMPLAINTS = {"Unhandled error while handling notification method=$/cancel_request Method not found"}
"""The official Python SDK does not know `$/cancel_request`; it logs that and continues."""


def check_lines(conversation: Conversation, side: Side) -> None:
    for line in conversation.wire.lines_of(side):
        assert line.startswith(b"{")
        assert line.endswith(b"}")
        assert b"\r" not in line
        line.decode("utf-8")
    assert all(message["jsonrpc"] == "2.0" for message in conversation.wire.sent_by(side))


@for_pairs(OUR_AGENT)
@pytest.mark.rule(
    "framing.agent-only-messages",
    "framing.agent-one-line",
    "framing.agent-utf8",
    "framing.agent-jsonrpc-member",
    "framing.agent-no-batch",
)
def test_our_agent_writes_one_message_per_line(conversation: Conversation) -> None:
    check_lines(conversation, "agent")


@for_pairs(OFFICIAL_CLIENTS)
@pytest.mark.rule("framing.agent-only-messages")
def test_a_stray_print_of_our_agent_goes_to_stderr(conversation: Conversation) -> None:
    assert "a stray print" in conversation.stderr
    assert b"a stray print" not in b"".join(conversation.wire.lines_of("agent"))


@for_pairs(OUR_CLIENT, OUR_CLIENT_REMOTE)
@pytest.mark.rule(
    "framing.client-only-messages",
    "framing.client-one-line",
    "framing.client-utf8",
    "framing.client-jsonrpc-member",
    "framing.client-no-batch",
)
def test_our_client_writes_one_message_per_line(conversation: Conversation) -> None:
    check_lines(conversation, "client")


@for_pairs(OUR_AGENT)
@pytest.mark.rule(
    "framing.agent-empty-results",
    "extension.agent-no-custom-members",
    "extension.agent-known-methods",
    "prompt.update-members",
    "prompt.chunk-content",
    "tool-call.members",
    "tool-call.kind",
    "tool-call.status",
    "tool-call.content",
    "permission.request-members",
    "permission.option-members",
    "plan.entry-members",
    "option.flat-or-grouped",
    "command.members",
    "session-info.members",
)
def test_messages_of_our_agent_are_valid_by_accords_schema(conversation: Conversation) -> None:
    assert conversation.wire.breaches("agent") == []


@for_pairs(OUR_AGENT)
@pytest.mark.rule(
    "framing.agent-empty-results",
    "prompt.update-members",
    "prompt.chunk-content",
    "tool-call.members",
    "tool-call.kind",
    "tool-call.status",
    "tool-call.content",
    "permission.request-members",
    "permission.option-members",
    "plan.entry-members",
)
def test_messages_of_our_agent_are_valid_by_the_official_schema(conversation: Conversation) -> None:
    assert conversation.wire.unofficial("agent") == []


@for_pairs(OUR_CLIENT, OUR_CLIENT_REMOTE)
@pytest.mark.rule(
    "framing.client-error-members",
    "framing.client-empty-results",
    "extension.client-no-custom-members",
    "extension.client-known-methods",
    "initialize.client-capabilities-member",
    "session.new-members",
    "file.read-result",
    "terminal.output-members",
)
def test_messages_of_our_client_are_valid_by_accords_schema(conversation: Conversation) -> None:
    assert conversation.wire.breaches("client") == []


@for_pairs(OUR_CLIENT, OUR_CLIENT_REMOTE)
@pytest.mark.rule(
    "framing.client-error-members",
    "framing.client-empty-results",
    "session.new-members",
    "file.read-result",
    "terminal.output-members",
)
def test_messages_of_our_client_are_valid_by_the_official_schema(conversation: Conversation) -> None:
    assert conversation.wire.unofficial("client") == []


def unanswered(conversation: Conversation, side: Side) -> list[str]:
    """The requests that a side did not answer. Asserts that no request was answered twice."""
    asked = conversation.wire.asked_of(side)
    counts = conversation.wire.answer_counts(side)
    assert set(counts) <= set(asked)
    assert set(counts.values()) == {1}
    return [method for id, method in asked.items() if id not in counts]


@for_pairs(OUR_AGENT)
@pytest.mark.rule("framing.agent-one-answer", "framing.agent-silent-on-notification")
def test_our_agent_answers_every_request_once(conversation: Conversation) -> None:
    assert unanswered(conversation, "agent") == ["session/prompt"]  # the prompt that makes it crash


@for_pairs(OUR_CLIENT, OUR_CLIENT_REMOTE)
@pytest.mark.rule("framing.client-one-answer", "framing.client-silent-on-notification")
def test_our_client_answers_every_request_once(conversation: Conversation) -> None:
    assert unanswered(conversation, "client") == []


def turns(conversation: Conversation) -> Iterator[tuple[str, list[Message]]]:
    """For each answered prompt: its session, and everything the agent sent after the response."""
    prompts: dict[Any, str] = {
        call["id"]: call["params"]["sessionId"]
        for call in conversation.wire.calls("client", "session/prompt")
    }
    sent = conversation.wire.sent_by("agent")
    for place, message in enumerate(sent):
        if "method" not in message and message["id"] in prompts:
            yield prompts[message["id"]], sent[place + 1 :]


@for_pairs(OUR_AGENT)
@pytest.mark.rule("prompt.updates-before-response", "cancel.updates-before-response")
def test_no_update_of_a_turn_follows_its_response(conversation: Conversation) -> None:
    """Nothing follows the response to the last prompt of a session."""
    last = dict(turns(conversation))
    assert len(last) > 15
    for session, rest in last.items():
        assert [message for message in rest if message.get("params", {}).get("sessionId") == session] == []


@for_pairs(OUR_AGENT)
@pytest.mark.rule("session.load-answers-last")
def test_our_agent_answers_load_after_the_replay(conversation: Conversation) -> None:
    sent = conversation.wire.sent_by("agent")
    [loaded, _] = conversation.wire.answers_of("agent", "session/load")
    place = sent.index(loaded)
    kinds = [message["params"]["update"]["sessionUpdate"] for message in sent[place - 2 : place]]
    assert kinds == ["user_message_chunk", "agent_message_chunk"]


@for_pairs(OFFICIAL_CLIENTS)
def test_official_clients_accept_every_update_of_our_agent(conversation: Conversation) -> None:
    assert set(conversation.complaints) <= KNOWN_COMPLAINTS
    seen = Counter(
        (one["session"], one["update"]["sessionUpdate"])
        for scenario in conversation.scenarios.values()
        for one in scenario.seen("update")
    )
    sent = Counter(
        (call["params"]["sessionId"], call["params"]["update"]["sessionUpdate"])
        for call in conversation.wire.calls("agent", "session/update")
    )
    assert seen == sent


@for_pairs(OUR_CLIENT, OUR_CLIENT_REMOTE)
def test_our_strict_client_reports_no_problems(conversation: Conversation) -> None:
    assert conversation.complaints == []
