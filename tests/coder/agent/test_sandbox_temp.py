"""Files in the private /tmp of the sandbox are readable by name; the user's /tmp is not affected."""

import tempfile
from pathlib import Path

import pytest
from tests.coder.agent.harness import AgentHarness, ScriptedModel, use

from accord.coder.model_history import ToolResult, text_of
from accord.policy.sandbox import Sandbox


@pytest.fixture
def private_temp(tmp_path: Path) -> None:
    """Skip when no sandbox provides commands with a private temporary folder."""
    with Sandbox([str(tmp_path)]) as sandbox:
        if not sandbox.report.fact("temp").enforced or sandbox.temp != "/tmp":
            pytest.skip("no sandbox here gives commands a /tmp of their own: install bubblewrap")


async def test_model_reads_a_file_that_its_command_left_in_tmp(harness: AgentHarness, private_temp: None):
    left = use("bash", command="echo from the sandbox > /tmp/accord-left.txt")
    model = ScriptedModel([left], [use("read_file", path="/tmp/accord-left.txt")], ["ok"])
    async with harness.client(model=model, mode="workspace-write") as client:
        turn = client.prompt(await client.new_session(harness.cwd))
        permission_request = await client.asked(
            "session/request_permission"
        )  # the command names a path outside the project
        client.raw.reply(permission_request, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        await client.turn_of(turn)
        assert client.methods().count("session/request_permission") == 1
    results_sent = [
        text_of(message) for message in model.requests[-1].messages if isinstance(message, ToolResult)
    ]
    assert "from the sandbox" in results_sent[1]
    assert not Path("/tmp/accord-left.txt").exists()


async def test_user_file_in_tmp_still_needs_permission(harness: AgentHarness, private_temp: None):
    with tempfile.NamedTemporaryFile("w", dir="/tmp", suffix=".txt") as file:
        file.write("mine")
        file.flush()
        async with harness.client(
            [use("read_file", path=file.name)], ["ok"], mode="workspace-write"
        ) as client:
            turn = client.prompt(await client.new_session(harness.cwd))
            permission_request = await client.asked("session/request_permission")
            assert file.name in permission_request["params"]["toolCall"]["title"]
            client.raw.reply(
                permission_request, {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
            )
            await client.turn_of(turn)
