"""Prompt turns: updates in order, their end, and what comes around them."""

import pytest

from accord.schema import AgentMessageChunk
from accord.session import TurnEnded, TurnStarted, text_of
from tests.client.peer import Watching, all_of, both, connected, in_session, kinds


@pytest.mark.rule(58, 59, 60, 61, 90, 91)
async def test_a_turn_from_initialize_to_its_end():
    async with connected() as (agent, peer):
        session, asked = await both(agent.new_session("/project"), peer.open("s1"))
        assert asked["params"] == {"cwd": "/project", "mcpServers": []}

        turn = Watching(session.prompt("Hello"))
        prompt = await peer.next("session/prompt")
        assert prompt["params"] == {"sessionId": "s1", "prompt": [{"type": "text", "text": "Hello"}]}
        peer.say("Hel")
        peer.say("lo!")
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()

    assert kinds(events) == ["TurnStarted", "AgentMessageChunk", "AgentMessageChunk", "TurnEnded"]
    assert session.state.messages[-1].text == "Hello!"
    assert isinstance(events[-1], TurnEnded) and events[-1].stop_reason == "end_turn"
    opening = peer.heard[0]
    assert opening["method"] == "initialize"
    assert opening["params"]["protocolVersion"] == 1
    assert opening["params"]["clientInfo"]["name"] == "accord"
