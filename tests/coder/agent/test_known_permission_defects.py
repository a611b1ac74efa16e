"""Commands, reads and deletions that other coding agents were found to allow without permission."""

from pathlib import Path

import pytest
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, ScriptedModel, choose, configure, use


@pytest.mark.parametrize(
    "command",
    ["env", "printenv", "git log --output=stolen", "sort -o stolen a.txt", "find a.txt -exec touch stolen ;"],
)
async def test_command_that_only_looks_read_only_needs_permission(harness: AgentHarness, command: str):
    configure(harness, SANDBOX_OFF)
    (harness.project / "a.txt").write_text("alpha\n")
    async with harness.client([use("bash", command=command)]) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session)
        choose(client, await client.asked("session/request_permission"), "reject_once")
        await client.turn_of(turn)
    assert [path.name for path in harness.project.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf sub/../../project",
        "rm -rf ./sub/..",
        """python3 -c 'import shutil; shutil.rmtree("../project")'""",
    ],
)
async def test_indirect_deletion_of_the_project_is_denied_in_every_mode(harness: AgentHarness, command: str):
    (harness.project / "sub").mkdir()
    async with harness.client([use("bash", command=command)], mode="full-access") as client:
        updates, _ = await client.turn(await client.new_session(harness.cwd))
        assert "session/request_permission" not in client.methods()
        assert "Permission denied." in str(updates)
    assert (harness.project / "sub").is_dir()


@pytest.mark.parametrize("mode", ["ask", "full-access"])
@pytest.mark.parametrize("tool", ["read_file", "bash"])
async def test_reading_a_private_key_needs_permission(
    harness: AgentHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, tool: str
):
    monkeypatch.setenv("HOME", str(tmp_path))
    key = tmp_path / ".ssh" / "id_rsa"
    key.parent.mkdir()
    key.write_text("geheim")
    call = use(tool, path=str(key)) if tool == "read_file" else use(tool, command="cat ~/.ssh/id_rsa")
    model = ScriptedModel([call])
    async with harness.client(model=model, mode=mode) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session)
        choose(client, await client.asked("session/request_permission"), "reject_once")
        updates, _ = await client.turn_of(turn)
    assert "geheim" not in str(updates)
    assert "geheim" not in str(model.requests[-1].messages)


async def test_allow_always_for_one_command_does_not_cover_others(harness: AgentHarness):
    configure(harness, SANDBOX_OFF)
    commands = [
        [use("bash", command=line)] for line in ("mkdir one", "mkdir two", "touch three", "mkdir x; touch y")
    ]
    async with harness.client(*commands) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session)
        choose(client, await client.asked("session/request_permission"), "allow_always")
        for _ in range(2):  # the first answer covers `mkdir two`
            choose(client, await client.asked("session/request_permission"), "reject_once")
        await client.turn_of(turn)
    assert sorted(path.name for path in harness.project.iterdir()) == ["one", "two"]
