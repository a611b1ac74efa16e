"""Everything that Accord sent in the recorded conversations, line by line: held to the strict walk and to the official schema."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.interop.conversation import Conversation
from tests.interop.pairs import OFFICIAL_CLIENTS, OUR_AGENT, OUR_CLIENT, OUR_CLIENT_AFAR, talks
from tests.interop.wire_record import Message, Side

KNOWN_COMPLAINTS = {"Unhandled error while handling notification method=$/cancel_request Method not found"}
"""The official Python SDK does not know `$/cancel_request`. It logs that and goes on, as it should."""


def check_lines(talk: Conversation, side: Side) -> None:
    for line in talk.wire.lines_of(side):
        assert line.startswith(b"{")
        assert line.endswith(b"}")
        assert b"\r" not in line
        line.decode("utf-8")
    assert all(message["jsonrpc"] == "2.0" for message in talk.wire.sent_by(side))


@talks(OUR_AGENT)
@pytest.mark.rule(1, 3, 5, 7, 29)
def test_our_agent_writes_one_message_a_line_and_nothing_else(talk: Conversation) -> None:
    check_lines(talk, "agent")


@talks(OFFICIAL_CLIENTS)
@pytest.mark.rule(1)
def test_a_stray_print_of_our_agent_goes_to_stderr(talk: Conversation) -> None:
    assert "a stray print" in talk.stderr
    assert b"a stray print" not in b"".join(talk.wire.lines_of("agent"))


@talks(OUR_CLIENT, OUR_CLIENT_AFAR)
@pytest.mark.rule(2, 4, 6, 8, 30)
def test_our_client_writes_one_message_a_line_and_nothing_else(talk: Conversation) -> None:
    check_lines(talk, "client")


@talks(OUR_AGENT)
@pytest.mark.rule(34, 42, 44, 145, 146, 173, 175, 176, 177, 193, 194, 205, 214, 227, 232)
def test_what_our_agent_sends_passes_the_strict_walk(talk: Conversation) -> None:
    assert talk.wire.breaches("agent") == []


@talks(OUR_AGENT)
@pytest.mark.rule(34, 145, 146, 173, 175, 176, 177, 193, 194, 205)
def test_what_our_agent_sends_is_valid_by_the_official_schema(talk: Conversation) -> None:
    assert talk.wire.unofficial("agent") == []


@talks(OUR_CLIENT, OUR_CLIENT_AFAR)
@pytest.mark.rule(28, 35, 43, 45, 61, 90, 239, 250)
def test_what_our_client_sends_passes_the_strict_walk(talk: Conversation) -> None:
    assert talk.wire.breaches("client") == []


@talks(OUR_CLIENT, OUR_CLIENT_AFAR)
@pytest.mark.rule(28, 35, 90, 239, 250)
def test_what_our_client_sends_is_valid_by_the_official_schema(talk: Conversation) -> None:
    assert talk.wire.unofficial("client") == []


def unanswered(talk: Conversation, side: Side) -> list[str]:
    """The requests that a side did not answer; every answer must be the only one to a request that was made."""
    asked = talk.wire.asked_of(side)
    counts = talk.wire.answer_counts(side)
    assert set(counts) <= set(asked)
    assert set(counts.values()) == {1}
    return [method for id, method in asked.items() if id not in counts]


@talks(OUR_AGENT)
@pytest.mark.rule(11, 13)
def test_our_agent_answers_every_request_once(talk: Conversation) -> None:
    assert unanswered(talk, "agent") == ["session/prompt"]  # the one in which it was told to crash


@talks(OUR_CLIENT, OUR_CLIENT_AFAR)
@pytest.mark.rule(12, 14)
def test_our_client_answers_every_request_once(talk: Conversation) -> None:
    assert unanswered(talk, "client") == []


def turns(talk: Conversation) -> Iterator[tuple[str, list[Message]]]:
    """For each prompt that was answered: its session, and all that the agent sent after the answer."""
    prompts: dict[Any, str] = {
        call["id"]: call["params"]["sessionId"] for call in talk.wire.calls("client", "session/prompt")
    }
    sent = talk.wire.sent_by("agent")
    for place, message in enumerate(sent):
        if "method" not in message and message["id"] in prompts:
            yield prompts[message["id"]], sent[place + 1 :]


@talks(OUR_AGENT)
@pytest.mark.rule(144, 164)
def test_nothing_of_a_turn_comes_after_its_answer(talk: Conversation) -> None:
    """A session's last prompt is followed by nothing; those before it only by what the next one brings about."""
    last = dict(turns(talk))
    assert len(last) > 15
    for session, rest in last.items():
        assert [message for message in rest if message.get("params", {}).get("sessionId") == session] == []


@talks(OUR_AGENT)
@pytest.mark.rule(105)
def test_our_agent_answers_load_behind_the_replay(talk: Conversation) -> None:
    sent = talk.wire.sent_by("agent")
    [loaded, _] = talk.wire.answers_of("agent", "session/load")
    place = sent.index(loaded)
    kinds = [message["params"]["update"]["sessionUpdate"] for message in sent[place - 2 : place]]
    assert kinds == ["user_message_chunk", "agent_message_chunk"]


@talks(OFFICIAL_CLIENTS)
def test_official_clients_take_every_update_of_our_agent_without_complaint(talk: Conversation) -> None:
    assert set(talk.complaints) <= KNOWN_COMPLAINTS
    seen = Counter(
        (one["session"], one["update"]["sessionUpdate"])
        for scene in talk.scenes.values()
        for one in scene.seen("update")
    )
    sent = Counter(
        (call["params"]["sessionId"], call["params"]["update"]["sessionUpdate"])
        for call in talk.wire.calls("agent", "session/update")
    )
    assert seen == sent


@talks(OUR_CLIENT, OUR_CLIENT_AFAR)
def test_our_client_has_nothing_to_complain_of_even_without_repairs(talk: Conversation) -> None:
    assert talk.complaints == []
