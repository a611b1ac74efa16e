"""Messages to a running turn: `ClientSession.steer`."""

from typing import Any

import pytest
from tests.client.raw_agent import EventCollector, both, connected

from accord.errors import BadAnswer, NotOffered
from accord.session import MessageChanged

STEERING: dict[str, Any] = {"_meta": {"steering": {"supported": True}}}


async def test_a_message_joins_the_running_turn() -> None:
    async with connected(**STEERING) as (agent, peer):
        assert agent.can_steer
        session, _ = await both(agent.new_session("/project"), peer.open("s1"))
        turn = EventCollector(session.prompt("Hello"))
        prompt = await peer.next("session/prompt")
        sent, steering = await both(session.steer("use tabs"), _injected(peer))
        assert sent
        assert steering["params"] == {
            "sessionId": session.id,
            "prompt": [{"type": "text", "text": "use tabs"}],
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        }
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
    [message] = [event for event in events if isinstance(event, MessageChanged)]
    assert (message.kind, message.text) == ("user", "use tabs")
    assert [message.text for message in session.state.messages] == ["Hello", "use tabs"]


@pytest.mark.parametrize("outcome", ["promptRequired", "failed"])
async def test_a_message_that_the_turn_does_not_take_is_not_shown(outcome: str) -> None:
    async with connected(**STEERING) as (agent, peer):
        session, _ = await both(agent.new_session("/project"), peer.open("s1"))
        if outcome == "failed":
            with pytest.raises(BadAnswer, match="did not take the message"):
                await both(session.steer("late"), _injected(peer, outcome))
        else:
            assert (await both(session.steer("late"), _injected(peer, outcome)))[0] is False
        assert session.state.messages == []


async def test_an_agent_without_steering_is_not_asked() -> None:
    async with connected() as (agent, peer):
        session, _ = await both(agent.new_session("/project"), peer.open("s1"))
        assert not agent.can_steer
        with pytest.raises(NotOffered, match="takes no messages during a turn"):
            await session.steer("use tabs")


async def _injected(peer: Any, outcome: str = "injected") -> Any:
    steering = await peer.next("_session/steering")
    peer.reply(steering, {"outcome": outcome})
    return steering
