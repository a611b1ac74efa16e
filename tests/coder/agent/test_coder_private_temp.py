"""What a command leaves in /tmp of its sandbox can be looked at by its name; the user's own /tmp stays what it is."""

import tempfile
from pathlib import Path

import pytest
from tests.coder.agent.desk import Desk, ScriptedModel, use

from accord.coder.messages import ToolResult, text_of
from accord.policy.sandbox import Sandbox


@pytest.fixture
def confined(tmp_path: Path) -> None:
    """Skips where no sandbox gives commands a temporary folder of their own."""
    with Sandbox([str(tmp_path)]) as sandbox:
        if not sandbox.boundary.fact("temp").enforced or sandbox.temp != "/tmp":
            pytest.skip("no sandbox here gives commands a /tmp of their own: install bubblewrap")


async def test_the_model_reads_what_its_command_left_in_tmp(desk: Desk, confined: None):
    left = use("bash", command="echo from the sandbox > /tmp/accord-left.txt")
    model = ScriptedModel([left], [use("read_file", path="/tmp/accord-left.txt")], ["ok"])
    async with desk.client(model=model, mode="workspace-write") as client:
        turn = client.prompt(await client.new_session(desk.cwd))
        asked = await client.asked("session/request_permission")  # the line names a place outside
        client.raw.reply(asked, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        await client.turn_of(turn)
        assert client.methods().count("session/request_permission") == 1
    told = [text_of(message) for message in model.requests[-1].messages if isinstance(message, ToolResult)]
    assert "from the sandbox" in told[1]
    assert not Path("/tmp/accord-left.txt").exists()


async def test_a_file_of_the_user_in_tmp_is_still_asked_for(desk: Desk, confined: None):
    with tempfile.NamedTemporaryFile("w", dir="/tmp", suffix=".txt") as file:
        file.write("mine")
        file.flush()
        async with desk.client([use("read_file", path=file.name)], ["ok"], mode="workspace-write") as client:
            turn = client.prompt(await client.new_session(desk.cwd))
            asked = await client.asked("session/request_permission")
            assert file.name in asked["params"]["toolCall"]["title"]
            client.raw.reply(asked, {"outcome": {"outcome": "selected", "optionId": "reject_once"}})
            await client.turn_of(turn)
