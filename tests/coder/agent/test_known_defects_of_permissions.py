"""What other coding agents were found to run, read or destroy unasked: nothing of it here."""

from pathlib import Path

import pytest
from tests.coder.agent.desk import Desk, ScriptedModel, use
from tests.coder.agent.user import NOTHING_CONFINES, choose, configure


@pytest.mark.parametrize(
    "command",
    ["env", "printenv", "git log --output=stolen", "sort -o stolen a.txt", "find a.txt -exec touch stolen ;"],
)
async def test_a_command_that_looks_harmless_but_tells_or_writes_is_asked_about(desk: Desk, command: str):
    configure(desk, NOTHING_CONFINES)
    (desk.project / "a.txt").write_text("alpha\n")
    async with desk.client([use("bash", command=command)]) as client:
        session = await client.new_session(desk.cwd)
        turn = client.prompt(session)
        choose(client, await client.asked("session/request_permission"), "reject_once")
        await client.turn_of(turn)
    assert [path.name for path in desk.project.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf sub/../../project",
        "rm -rf ./sub/..",
        """python3 -c 'import shutil; shutil.rmtree("../project")'""",
    ],
)
async def test_a_roundabout_way_to_destroy_the_project_is_refused_in_every_mode(desk: Desk, command: str):
    (desk.project / "sub").mkdir()
    async with desk.client([use("bash", command=command)], mode="full-access") as client:
        updates, _ = await client.turn(await client.new_session(desk.cwd))
        assert "session/request_permission" not in client.methods()
        assert "Permission denied." in str(updates)
    assert (desk.project / "sub").is_dir()


@pytest.mark.parametrize("mode", ["ask", "full-access"])
@pytest.mark.parametrize("tool", ["read_file", "bash"])
async def test_a_private_key_is_not_read_unasked(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, tool: str
):
    monkeypatch.setenv("HOME", str(tmp_path))
    key = tmp_path / ".ssh" / "id_rsa"
    key.parent.mkdir()
    key.write_text("geheim")
    call = use(tool, path=str(key)) if tool == "read_file" else use(tool, command="cat ~/.ssh/id_rsa")
    model = ScriptedModel([call])
    async with desk.client(model=model, mode=mode) as client:
        session = await client.new_session(desk.cwd)
        turn = client.prompt(session)
        choose(client, await client.asked("session/request_permission"), "reject_once")
        updates, _ = await client.turn_of(turn)
    assert "geheim" not in str(updates)
    assert "geheim" not in str(model.requests[-1].messages)


async def test_always_for_one_command_is_no_leave_for_all(desk: Desk):
    configure(desk, NOTHING_CONFINES)
    commands = [
        [use("bash", command=line)] for line in ("mkdir one", "mkdir two", "touch three", "mkdir x; touch y")
    ]
    async with desk.client(*commands) as client:
        session = await client.new_session(desk.cwd)
        turn = client.prompt(session)
        choose(client, await client.asked("session/request_permission"), "allow_always")
        for _ in range(2):  # `mkdir two` is covered
            choose(client, await client.asked("session/request_permission"), "reject_once")
        await client.turn_of(turn)
    assert sorted(path.name for path in desk.project.iterdir()) == ["one", "two"]
