"""Recent folders and worktrees over the gateway: create, state, clean-up, and who may."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import gateway_harness, open_session

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "Test"), ("user.email", "test@example.com")):
        git(folder, "config", name, value)
    (folder / "app.py").write_text("print()\n")
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


async def test_a_worktree_is_made_shows_its_state_and_is_removed_when_nothing_is_lost(
    audit: AuditLog, project: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        made = await client.call("_accord/worktree/create", {"path": str(project), "name": "fix"})
        cwd = Path(made["cwd"])
        assert (made["branch"], made["created"], (cwd / "app.py").exists()) == ("accord/fix", True, True)
        await open_session(harness, client, cwd)
        (cwd / "new.py").write_text("new\n")
        state = await client.call("_accord/worktree", {"path": str(cwd)})
        assert (state["branch"], state["worktree"]["changes"], state["worktree"]["commits"]) == (
            "accord/fix",
            1,
            0,
        )
        refused = await client.error("_accord/worktree/remove", {"path": str(cwd)})
        assert "1 uncommitted file" in refused["message"]
        removing = client.ask("_accord/worktree/remove", {"path": str(cwd), "save": True})
        harness.agent.reply(await harness.agent.until_method("session/close"), {})
        answer = await client.answer_to(removing)
        assert "accord/fix stays" in answer["result"]["note"]
        assert not cwd.exists()
        assert "new.py" in git(project, "ls-tree", "--name-only", "accord/fix")


async def test_a_worktree_stays_while_a_turn_runs_in_it(audit: AuditLog, project: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        cwd = (await client.call("_accord/worktree/create", {"path": str(project)}))["cwd"]
        await open_session(harness, client, cwd)
        turn = client.prompt("s1")
        prompt = await harness.agent.until_method("session/prompt")
        error = await client.error("_accord/worktree/remove", {"path": cwd, "save": True})
        assert "cancel its turn first" in error["message"]
        assert Path(cwd).exists()
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        await client.updates_until(turn)


async def test_recent_folders_have_their_branches_and_only_those_that_exist(
    audit: AuditLog, project: Path, tmp_path: Path
) -> None:
    plain, gone = tmp_path / "plain", tmp_path / "gone"
    plain.mkdir()
    gone.mkdir()
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        made = await client.call("_accord/worktree/create", {"path": str(project), "name": "fix"})
        for number, folder in enumerate((gone, plain, project, project, made["cwd"])):
            await open_session(harness, client, folder, f"s{number}")
        gone.rmdir()
        folders = (await client.call("_accord/folders/recent"))["folders"]
        assert [(one["name"], one.get("branch"), one.get("worktree")) for one in folders] == [
            ("fix", "accord/fix", "fix"),
            ("project", "main", None),
            ("plain", None, None),
        ]
        harness.gateway.start_folder = str(plain)
        assert (await client.call("_accord/folders/recent"))["folders"][0]["name"] == "plain"
        harness.gateway.start_folder = str(project)
        guest = await harness.client(TokenRights("t2", "guest", folders=(str(plain),)))
        assert [one["name"] for one in (await guest.call("_accord/folders/recent"))["folders"]] == ["plain"]


@pytest.mark.parametrize("method", ["_accord/worktree/create", "_accord/worktree/remove"])
@pytest.mark.parametrize("rights", [{"read_only": True}, {"inside": True}, {"inside": False}])
async def test_a_token_with_limits_creates_and_removes_no_worktree(
    audit: AuditLog, project: Path, tmp_path: Path, method: str, rights: dict[str, Any]
) -> None:
    folder = tmp_path if rights.get("inside") else tmp_path / "elsewhere"
    limits: dict[str, Any] = {"read_only": True} if "read_only" in rights else {"folders": (str(folder),)}
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(TokenRights("t2", "guest", **limits))
        assert (await client.error(method, {"path": str(project)}))["code"] == -32003
        assert not (tmp_path / "project-worktrees").exists()
        if "inside" in rights:
            asked = client.ask("_accord/worktree", {"path": str(project)})
            assert ("result" in await client.answer_to(asked)) is rights["inside"]


@pytest.mark.parametrize("method", ["_accord/worktree/create", "_accord/worktree/remove"])
async def test_a_folder_without_a_repository_is_refused_in_one_line(
    audit: AuditLog, tmp_path: Path, method: str
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        error = await client.error(method, {"path": str(tmp_path)})
        assert str(tmp_path) in error["message"]
        assert await client.call("_accord/worktree", {"path": str(tmp_path)}) == {}
