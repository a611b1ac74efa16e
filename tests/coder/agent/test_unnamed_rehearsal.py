"""The rehearsal model follows commands only if it was chosen by name."""

from typing import Any

import pytest
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, configure

MODEL_CHOICES = [
    {"method": "session/prompt", "prompt": [{"type": "text", "text": "/model rehearsal"}]},
    {"method": "session/set_config_option", "configId": "model", "value": "rehearsal"},
]
"""The ways to name the model in a session."""


@pytest.fixture(autouse=True)
def config(harness: AgentHarness) -> None:
    configure(harness, f'mode = "full-access"\n{SANDBOX_OFF}')
    (harness.project / "a.txt").write_text("alpha")


@pytest.mark.parametrize("choice", MODEL_CHOICES)
async def test_without_a_model_commands_are_followed_only_after_the_user_named_it(
    harness: AgentHarness, choice: dict[str, object]
) -> None:
    async with harness.client(environment={}) as client:
        session = await client.new_session(harness.cwd)
        for prompt in ("write b.txt: beta", "run touch b.txt", "read a.txt", "hello"):
            updates, _ = await client.turn(session, prompt)
            assert not [update for update in updates if update["sessionUpdate"] == "tool_call"]
            said = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
            assert "only if you choose me by name" in "".join(update["content"]["text"] for update in said)
        assert not (harness.project / "b.txt").exists()
        method, *_ = choice.values()
        await client.call(str(method), {"sessionId": session, **choice})
        await client.turn(session, "write b.txt: beta")
    assert (harness.project / "b.txt").read_text() == "beta"
    async with harness.client(environment={}) as client:
        await client.call("session/load", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        await client.turn(session, "write c.txt: gamma")
    assert (harness.project / "c.txt").exists()


async def test_a_loaded_session_without_a_named_model_follows_no_commands(harness: AgentHarness) -> None:
    def sees_images(initialized: Any) -> bool:
        return initialized["agentCapabilities"]["promptCapabilities"]["image"]

    async with harness.client(environment={"ACCORD_MODEL": "rehearsal"}) as client:
        assert not sees_images(client.initialized)
        session = await client.new_session(harness.cwd)
        await client.turn(session, "write b.txt: beta")
    params = {"sessionId": session, "cwd": harness.cwd, "mcpServers": []}
    async with harness.client(environment={}) as client:
        assert sees_images(client.initialized)  # the model that the user will choose may do so
        await client.call("session/load", params)
        await client.turn(session, "write c.txt: gamma")
    assert not (harness.project / "c.txt").exists()
    async with harness.client(environment={"ACCORD_MODEL": "rehearsal"}) as client:
        await client.call("session/load", params)
        await client.turn(session, "write c.txt: gamma")
    assert (harness.project / "c.txt").exists()
