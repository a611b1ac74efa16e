"""Terminal commands that a folder-bound token can cause run in the sandbox, or not at all."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import GatewayHarness, gateway_harness, open_session
from tests.gateway.test_folder_rights import limited_to
from tests.gateway.test_shared_sessions import CALL, OPTIONS

from accord.errors import RpcError
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.gateway_workspace import FolderSandbox
from accord.policy.sandbox import choose_backend
from accord.policy.sandbox.sandbox import probe
from accord.store import open_store
from accord.workspace.terminal_command import PreparedCommand

needs_sandbox = pytest.mark.skipif(
    choose_backend()[0].name == "none", reason="no sandbox works on this machine: install bubblewrap"
)


needs_bubblewrap = pytest.mark.skipif(
    choose_backend()[0].name != "bubblewrap", reason="bubblewrap does not work on this machine"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a project, something private beside it, and a key in the gateway's environment."""
    (tmp_path / "project").mkdir()
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "diary").write_text("dear diary")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SERVICE_API_KEY", "sk-of-the-gateway")
    return tmp_path


async def run(harness: GatewayHarness, line: str) -> tuple[int | None, str]:
    """Run a shell line in a terminal of session s1, as its agent."""
    agent = harness.agent
    params: dict[str, Any] = {"sessionId": "s1"}
    created = await agent.call("terminal/create", {**params, "command": "sh", "args": ["-c", line]})
    params["terminalId"] = created["terminalId"]
    status = await agent.call("terminal/wait_for_exit", params)
    output = (await agent.call("terminal/output", params))["output"]
    await agent.call("terminal/release", params)
    return status["exitCode"], output


def git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True)


ATTEMPTS = "echo x > {0}/private/new; cat {0}/private/diary; env; echo done > inside"


def is_confined(home: Path, output: str) -> bool:
    """Whether ATTEMPTS had no effect outside the project, and worked within it."""
    assert (home / "project" / "inside").read_text() == "done\n", output
    leaks = [text for text in ("dear diary", "sk-of-the-gateway") if text in output]
    written = (home / "private" / "new").exists()
    assert bool(leaks) == written, (leaks, written)
    return not written


@needs_sandbox
async def test_commands_of_a_folder_token_stay_in_the_folders(audit: AuditLog, home: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(limited_to(home / "project"))
        await open_session(harness, client, home / "project")
        code, output = await run(harness, ATTEMPTS.format(home))
        assert code == 0, output
        assert is_confined(home, output)
        params = {"sessionId": "s1", "command": "sh", "env": [{"name": "GREETING", "value": "hi"}]}
        created = await harness.agent.call("terminal/create", {**params, "args": ["-c", "echo $GREETING"]})
        terminal = {"sessionId": "s1", "terminalId": created["terminalId"]}
        await harness.agent.call("terminal/wait_for_exit", terminal)
        assert (await harness.agent.call("terminal/output", terminal))["output"] == "hi\n"


async def test_commands_of_an_unrestricted_token_are_not_confined(audit: AuditLog, home: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        await open_session(harness, await harness.client(), home / "project")
        watcher = await harness.client(limited_to(home / "project", read_only=True))
        await watcher.load("s1", str(home / "project"))
        _, output = await run(harness, ATTEMPTS.format(home))
        assert not is_confined(home, output)


@needs_sandbox
@pytest.mark.parametrize("how", ["joins", "answers", "gateway folder"])
async def test_commands_are_confined_once_a_folder_token_can_cause_them(
    audit: AuditLog, home: Path, how: str
) -> None:
    project = home / "project"
    owner_rights = TokenRights("t1", "owner")
    if how == "gateway folder":
        owner_rights = owner_rights.restricted_to((str(project),))
    async with gateway_harness(audit=audit) as harness:
        await open_session(harness, await harness.client(owner_rights), project)
        guest = await harness.client(limited_to(project))
        if how == "joins":
            await guest.load("s1", str(project))
            guest.connection.end(1000, "bye")
        elif how == "answers":
            asked = harness.agent.ask(
                "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
            )
            while not (items := (await guest.call("_accord/inbox"))["items"]):
                pass
            result = {"outcome": {"outcome": "selected", "optionId": "yes"}}
            await guest.call("_accord/inbox/answer", {"id": items[0]["id"], "result": result})
            await harness.agent.answer_to(asked)
        _, output = await run(harness, ATTEMPTS.format(home))
        assert is_confined(home, output)


@needs_sandbox
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_commands_are_confined_while_a_folder_token_opens_the_session(
    audit: AuditLog, home: Path, tmp_path: Path, method: str
) -> None:
    """An agent may run a command before it answers, as one that tests the terminal does."""
    project, store = home / "project", open_store(tmp_path / "log.db")
    async with gateway_harness(store=store, audit=audit) as harness:
        await open_session(harness, await harness.client(), project)
    async with gateway_harness(store=store, audit=audit) as harness:
        guest = await harness.client(limited_to(project))
        asked = guest.ask(method, {"sessionId": "s1", "cwd": str(project), "mcpServers": []})
        opening = await harness.agent.until_method(method)
        _, output = await run(harness, ATTEMPTS.format(home))
        assert is_confined(home, output)
        harness.agent.reply(opening, {})
        assert "result" in await guest.answer_to(asked)
    store.close()


@pytest.mark.parametrize("request_", ["terminal/create", "fs/read_text_file", "fs/write_text_file"])
async def test_a_folder_that_a_link_replaced_does_not_widen_a_token(
    audit: AuditLog, home: Path, request_: str
) -> None:
    folder = home / "project" / "sub"
    folder.mkdir()
    async with gateway_harness(audit=audit) as harness:
        await open_session(harness, await harness.client(limited_to(home / "project")), folder)
        folder.rmdir()
        folder.symlink_to("../private")
        members = {
            "terminal/create": {"command": "cat", "args": ["diary"]},
            "fs/read_text_file": {"path": str(folder / "diary")},
            "fs/write_text_file": {"path": str(folder / "diary"), "content": "mine now"},
        }[request_]
        answer = await harness.agent.answer_to(harness.agent.ask(request_, {"sessionId": "s1", **members}))
        assert answer["error"]["code"] == -32003, answer
        assert "does not cover the folder" in answer["error"]["message"]
    assert (home / "private" / "diary").read_text() == "dear diary"


@needs_bubblewrap
@pytest.mark.parametrize("name", ["commondir", "hooks/pre-commit"])
async def test_what_git_would_use_outside_the_folders_is_moved_aside(
    audit: AuditLog, home: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """The user's next git command in the project would run what it names."""
    git_dir = home / "project" / ".git"
    git("init", "-q", "--template=", str(home / "project"))
    async with gateway_harness(audit=audit) as harness:
        await open_session(harness, await harness.client(limited_to(home / "project")), home / "project")
        await run(harness, f"mkdir -p .git/hooks; echo planted > .git/{name}")
    assert not (git_dir / name).exists()
    assert (git_dir / f"{name}.untrusted").read_text() == "planted\n"
    assert f".git/{name}.untrusted" in caplog.text


@pytest.mark.parametrize(
    "name",
    [".git/config", ".git/hooks/pre-commit", "link/config", "AGENTS.md", ".vscode/tasks.json", "settings"],
)
@pytest.mark.parametrize("token", ["folder", "unrestricted"])
async def test_a_folder_token_writes_no_file_that_steers_other_programs(
    audit: AuditLog, home: Path, name: str, token: str
) -> None:
    project = home / "project"
    git("init", "-q", str(project))
    git("-C", str(project), "config", "include.path", "../settings")
    (project / "settings").write_text("[user]\n")
    (project / "link").symlink_to(".git")
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(limited_to(project) if token == "folder" else TokenRights("t1"))
        await open_session(harness, client, project)

        async def write(path: Path) -> Any:
            params = {"sessionId": "s1", "path": str(path), "content": "planted"}
            return await harness.agent.answer_to(harness.agent.ask("fs/write_text_file", params))

        assert "result" in await write(project / "src" / "ordinary.txt")
        answer = await write(project / name)
    if token == "unrestricted":
        assert "result" in answer
        return
    assert answer["error"]["code"] == -32003
    assert "decides what other programs run" in answer["error"]["message"]
    assert not (project / name).exists() or "planted" not in (project / name).read_text()
    assert not (project / ".vscode").exists()


def test_without_a_sandbox_the_command_is_refused(home: Path) -> None:
    sandbox = FolderSandbox((str(home / "project"),), backend="none")
    command = PreparedCommand(["sh", "-c", "true"], dict(os.environ), home / "project")
    with pytest.raises(RpcError, match="bound to folders, so commands need a sandbox") as refused:
        sandbox.confine(command, {})
    assert refused.value.code == -32003
    sandbox.close()


@pytest.mark.skipif(probe("landlock").backend is None, reason="this kernel has no Landlock")
def test_a_sandbox_that_leaves_git_hooks_writable_is_not_enough(home: Path) -> None:
    """A hook that a command writes runs outside the folders when the user next commits."""
    project = home / "project"
    command = PreparedCommand(["sh", "-c", "true"], dict(os.environ), project)
    sandbox = FolderSandbox((str(project),), backend="landlock")
    sandbox.confine(command, {})  # there is nothing to protect
    sandbox.close()
    (project / ".git" / "hooks").mkdir(parents=True)
    with pytest.raises(RpcError, match="NOT enforced: steering"):
        FolderSandbox((str(project),), backend="landlock").confine(command, {})
