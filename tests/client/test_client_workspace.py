"""Files and terminals of the client: `fs/*` and `terminal/*`, limited to the folders of the session."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tests.client.raw_agent import EventCollector, both, connected, in_session

from accord.client import ClientHandlers, ClientOptions, TerminalPrinted, local_workspace
from accord.testing.fake_clock import settle
from accord.workspace.text_files import TextFiles
from accord.workspace.workspace import LocalWorkspace

LOCAL = ClientHandlers(workspace=local_workspace)


def program(code: str) -> dict:
    return {"command": sys.executable, "args": ["-c", code]}


async def create(peer, code: str, **more) -> dict:
    """Create a terminal that runs Python code; return the params that name it."""
    created = await peer.result_of("terminal/create", {"sessionId": "s1", **program(code), **more})
    return {"sessionId": "s1", **created}


# -- files --


@pytest.mark.rule(
    "file.read-result", "file.line-and-limit", "file.write-creates", "framing.client-empty-results"
)
async def test_files_are_written_and_read_by_line_range(tmp_path):
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        path = str(tmp_path / "new" / "a.txt")
        written = {"sessionId": "s1", "path": path, "content": "one\ntwo\nthree\n"}
        assert await peer.result_of("fs/write_text_file", written) == {}
        assert Path(path).read_text() == "one\ntwo\nthree\n"
        request = {"sessionId": "s1", "path": path}
        assert await peer.result_of("fs/read_text_file", request) == {"content": "one\ntwo\nthree\n"}
        assert await peer.result_of("fs/read_text_file", request | {"line": 2, "limit": 1}) == {
            "content": "two\n"
        }
        assert await peer.result_of("fs/read_text_file", request | {"line": 0, "limit": 1}) == {
            "content": "one\n"
        }
        assert await peer.result_of("fs/read_text_file", request | {"line": 3}) == {"content": "three\n"}
        assert await peer.result_of("fs/read_text_file", request | {"line": None, "limit": 0}) == {
            "content": ""
        }


@pytest.mark.rule("file.missing-file")
async def test_a_missing_file_is_not_found_or_optionally_empty(tmp_path):
    path = tmp_path / "missing.txt"
    request = {"sessionId": "s1", "path": str(path)}
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        error = await peer.error_of("fs/read_text_file", request)
        assert (error["code"], error["data"]) == (-32002, {"uri": path.as_uri()})

    def lenient(session):
        return LocalWorkspace(session.roots, files=TextFiles(session.roots, missing_is_empty=True))

    async with in_session(cwd=tmp_path, handlers=ClientHandlers(workspace=lenient)) as (_, peer):
        assert await peer.result_of("fs/read_text_file", request) == {"content": ""}


@pytest.mark.rule("file.unsaved-buffers")
async def test_the_agent_reads_unsaved_editor_text(tmp_path):
    (tmp_path / "a.txt").write_text("saved")

    class Editor:
        texts = {tmp_path / "a.txt": "unsaved"}

        def read(self, path):
            return self.texts.get(path)

        def write(self, path, text):
            self.texts[path] = text
            return True

    def edited(session):
        return LocalWorkspace(session.roots, files=TextFiles(session.roots, buffers=Editor()))

    async with in_session(cwd=tmp_path, handlers=ClientHandlers(workspace=edited)) as (_, peer):
        request = {"sessionId": "s1", "path": str(tmp_path / "a.txt")}
        assert await peer.result_of("fs/read_text_file", request) == {"content": "unsaved"}


@pytest.mark.rule("file.inside-roots")
async def test_paths_outside_the_session_folders_are_refused(tmp_path):
    inside, extra, outside = tmp_path / "in", tmp_path / "extra", tmp_path / "out"
    for folder in (inside, extra, outside):
        folder.mkdir()
        (folder / "a.txt").write_text(folder.name)
    (inside / "link").symlink_to(outside / "a.txt")
    (inside / "dir").symlink_to(outside)
    (inside / "fine").symlink_to(extra / "a.txt")
    async with connected(handlers=LOCAL) as (agent, peer):
        await both(agent.new_session(inside, additional_directories=[extra]), peer.open())
        for path in (
            outside / "a.txt",
            inside / "link",
            inside / "dir" / "a.txt",
            inside / ".." / "out" / "a.txt",
        ):
            request = {"sessionId": "s1", "path": str(path)}
            assert (await peer.error_of("fs/read_text_file", request))["code"] == -32602
            assert (await peer.error_of("fs/write_text_file", request | {"content": "x"}))["code"] == -32602
        assert (await peer.error_of("fs/read_text_file", {"sessionId": "s1", "path": "a.txt"}))[
            "code"
        ] == -32602
        read = await peer.result_of("fs/read_text_file", {"sessionId": "s1", "path": str(inside / "fine")})
        assert read == {"content": "extra"}
    assert (outside / "a.txt").read_text() == "out"


@pytest.mark.rule("framing.client-invalid-params", "file.invalid-line-or-limit")
@pytest.mark.parametrize(
    "broken", [{"line": "2"}, {"limit": -1}, {"limit": 1.5}, {"line": True}, {"path": None}, {"path": 5}]
)
async def test_invalid_read_parameters_are_refused(tmp_path, broken):
    (tmp_path / "a.txt").write_text("x")
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        request = {"sessionId": "s1", "path": str(tmp_path / "a.txt")} | broken
        assert (await peer.error_of("fs/read_text_file", request))["code"] == -32602
        assert (await peer.error_of("fs/read_text_file", {"sessionId": "s1"}))["code"] == -32602


@pytest.mark.rule("file.unadvertised-method")
async def test_methods_that_are_not_advertised_are_not_served(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    path = {"sessionId": "s1", "path": str(tmp_path / "a.txt")}
    async with in_session(cwd=tmp_path) as (_, peer):
        assert (await peer.error_of("fs/read_text_file", path))["code"] == -32601
        assert (await peer.error_of("fs/write_text_file", path | {"content": ""}))["code"] == -32601
        for method in ("create", "output", "wait_for_exit", "kill", "release"):
            assert (await peer.error_of(f"terminal/{method}", {"sessionId": "s1", "command": "x"}))[
                "code"
            ] == -32601
    only_reads = ClientHandlers(workspace=local_workspace, offer=("read",))
    async with in_session(cwd=tmp_path, handlers=only_reads) as (_, peer):
        assert await peer.result_of("fs/read_text_file", path) == {"content": "x"}
        assert (await peer.error_of("fs/write_text_file", path | {"content": ""}))["code"] == -32601
        assert (await peer.error_of("terminal/create", {"sessionId": "s1", "command": "x"}))["code"] == -32601


@pytest.mark.rule("accord.client-unknown-session")
async def test_requests_for_an_unknown_session_are_refused(tmp_path):
    target = tmp_path / "a.txt"
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        for method, more in (
            ("fs/read_text_file", {"path": str(target)}),
            ("fs/write_text_file", {"path": str(target), "content": "x"}),
            ("terminal/create", {"command": "touch", "args": [str(target)]}),
            ("terminal/output", {"terminalId": "t"}),
            ("terminal/wait_for_exit", {"terminalId": "t"}),
            ("terminal/kill", {"terminalId": "t"}),
            ("terminal/release", {"terminalId": "t"}),
        ):
            error = await peer.error_of(method, {"sessionId": "nope", **more})
            assert (error["code"], error["data"]) == (-32002, {"sessionId": "nope"})
    assert not target.exists()


# -- terminals --


@pytest.mark.rule(
    "terminal.create-at-once",
    "terminal.environment",
    "terminal.output-members",
    "terminal.exit-status",
    "terminal.released-id-fails",
)
async def test_a_terminal_is_created_waited_for_read_and_released(tmp_path):
    (tmp_path / "sub").mkdir()
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        code = "import os, sys; print(os.getcwd(), os.environ['A'], sys.argv[1]); sys.exit(3)"
        terminal = await create(
            peer,
            "",
            args=["-c", code, "arg one"],
            env=[{"name": "A", "value": "b c"}],
            cwd=str(tmp_path / "sub"),
        )
        assert await peer.result_of("terminal/wait_for_exit", terminal) == {"exitCode": 3, "signal": None}
        shown = await peer.result_of("terminal/output", terminal)
        assert shown["output"].split() == [str(tmp_path / "sub"), "b", "c", "arg", "one"]
        assert shown["truncated"] is False
        assert shown["exitStatus"] == {"exitCode": 3, "signal": None}
        assert await peer.result_of("terminal/release", terminal) == {}
        for method in ("output", "wait_for_exit", "kill", "release"):
            assert "code" in await peer.error_of(f"terminal/{method}", terminal)


@pytest.mark.rule(
    "terminal.create-at-once",
    "terminal.output-members",
    "terminal.calls-during-wait",
    "terminal.kill-keeps-id",
    "framing.client-empty-results",
)
async def test_a_killed_terminal_stays_readable_while_another_call_waits(tmp_path):
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        terminal = await create(peer, "import signal; print('up', flush=True); signal.pause()")
        waiting = peer.ask("terminal/wait_for_exit", terminal)
        while not (shown := await peer.result_of("terminal/output", terminal))["output"]:
            pass
        assert "exitStatus" not in shown
        assert await peer.result_of("terminal/kill", terminal) == {}
        exit = (await response_to(peer, waiting))["result"]
        assert exit["exitCode"] is None
        assert exit["signal"] in ("SIGKILL", "SIGTERM")
        shown = await peer.result_of("terminal/output", terminal)
        assert shown["output"].startswith("up")
        assert shown["exitStatus"] == exit
        assert await peer.result_of("terminal/wait_for_exit", terminal) == exit
        assert await peer.result_of("terminal/release", terminal) == {}


async def response_to(peer, id):
    """The response to an earlier request, even if it was already received."""
    for message in peer.received:
        if message.get("id") == id and "method" not in message:
            return message
    return await peer.answer_to(id)


@pytest.mark.rule("terminal.output-limit")
async def test_output_over_the_limit_is_truncated_at_its_start_between_characters(tmp_path):
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        terminal = await create(peer, "print('日本語🙂' * 50, end='')", outputByteLimit=20)
        await peer.result_of("terminal/wait_for_exit", terminal)
        shown = await peer.result_of("terminal/output", terminal)
        assert shown["truncated"] is True
        assert len(shown["output"].encode()) <= 20
        assert ("日本語🙂" * 50).endswith(shown["output"])
        assert "\ufffd" not in shown["output"]
        await peer.result_of("terminal/release", terminal)


@pytest.mark.rule("terminal.exit-status")
async def test_the_exit_status_names_the_signal(tmp_path):
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        terminal = await create(peer, "import os; os.kill(os.getpid(), 9)")
        assert await peer.result_of("terminal/wait_for_exit", terminal) == {
            "exitCode": None,
            "signal": "SIGKILL",
        }


@pytest.mark.rule("terminal.release-kills")
async def test_release_ends_a_running_command(tmp_path):
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        code = f"import signal; f = open({str(pipe)!r}, 'w'); f.write('x'); f.flush(); signal.pause()"
        terminal = await create(peer, code)
        reader = await asyncio.to_thread(pipe.open)
        assert await asyncio.to_thread(reader.read, 1) == "x"
        await peer.result_of("terminal/release", terminal)
        # The other end of the pipe is closed when the process has ended.
        assert await asyncio.to_thread(reader.read) == ""
        reader.close()


@pytest.mark.rule("terminal.unknown-id")
async def test_an_unknown_terminal_is_refused(tmp_path):
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        for method in ("output", "wait_for_exit", "kill", "release"):
            error = await peer.error_of(f"terminal/{method}", {"sessionId": "s1", "terminalId": "nope"})
            assert isinstance(error["code"], int)


@pytest.mark.rule("terminal.create-invalid-params")
@pytest.mark.parametrize(
    "broken",
    [{"args": "x"}, {"args": [1]}, {"env": {"A": "b"}}, {"cwd": 5}, {"outputByteLimit": "1"}, {"command": 1}],
)
async def test_invalid_terminal_parameters_start_no_command(tmp_path, broken):
    mark = tmp_path / "started"
    options = ClientOptions(strict=True)
    async with in_session(cwd=tmp_path, handlers=LOCAL, options=options) as (_, peer):
        request = {"sessionId": "s1", "command": "touch", "args": [str(mark)]} | broken
        assert (await peer.error_of("terminal/create", request))["code"] == -32602
        outside = {"sessionId": "s1", "command": "touch", "args": [str(mark)], "cwd": "/"}
        assert (await peer.error_of("terminal/create", outside))["code"] == -32602
    assert not mark.exists()


@pytest.mark.rule("terminal.create-null-params")
@pytest.mark.dialect(35)
async def test_null_means_the_default_and_env_may_be_a_map(tmp_path):
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (_, peer):
        nulls = {"args": None, "env": None, "cwd": None, "outputByteLimit": None}
        created = await peer.result_of("terminal/create", {"sessionId": "s1", "command": "true", **nulls})
        assert (await peer.result_of("terminal/wait_for_exit", {"sessionId": "s1", **created}))[
            "exitCode"
        ] == 0
        terminal = await create(peer, "import os; print(os.environ['A'])", env={"A": "mapped"})
        await peer.result_of("terminal/wait_for_exit", terminal)
        assert (await peer.result_of("terminal/output", terminal))["output"].strip() == "mapped"


@pytest.mark.rule("tool-call.terminal-shown-live", "tool-call.terminal-kept")
async def test_terminal_output_is_an_event_and_is_kept_after_release(tmp_path):
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (session, peer):
        watching = EventCollector(session.events())
        await settle()
        terminal = await create(peer, "print('live', flush=True); input()")
        peer.update(
            "s1", "tool_call", toolCallId="c1", title="Run",
            content=[{"type": "terminal", "terminalId": terminal["terminalId"]}],
        )  # fmt: skip
        printed = await watching.until(TerminalPrinted)
        assert printed.terminal_id == terminal["terminalId"]
        await peer.result_of("terminal/release", terminal)
        await settle()
        (terminal_id,) = session.state.tool_calls["c1"].terminal_ids
        view = session.terminals[terminal_id]
        assert view.text.startswith("live")
        assert view.released
        assert view.command.startswith(sys.executable)
        await watching.cancel()


async def test_closing_the_session_ends_its_terminals(tmp_path):
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (session, peer):
        await create(
            peer, f"import signal; f = open({str(pipe)!r}, 'w'); f.write('x'); f.flush(); signal.pause()"
        )
        reader = await asyncio.to_thread(pipe.open)
        assert await asyncio.to_thread(reader.read, 1) == "x"
        closing = asyncio.create_task(session.close())
        peer.reply(await peer.next("session/close"), {})
        await closing
        assert await asyncio.to_thread(reader.read) == ""
        reader.close()


async def test_endless_terminal_output_uses_bounded_memory(tmp_path):
    async with in_session(cwd=tmp_path, handlers=LOCAL) as (session, peer):
        listening = session.events()
        first = asyncio.create_task(anext(listening))
        await settle()
        code = "import sys\nfor _ in range(4000): sys.stdout.write('x' * 1000)"
        terminal = await create(peer, code)
        await first
        await peer.result_of("terminal/wait_for_exit", terminal)
        await peer.result_of("terminal/release", terminal)
        assert len(session.terminals[terminal["terminalId"]].text) == 256 * 1024
        assert not session.agent.reading_paused, "the connection is not paused"
        printed = 0
        closing = asyncio.create_task(session.close())
        peer.reply(await peer.next("session/close"), {})
        await closing
        async for event in listening:
            printed += len(event.text) if isinstance(event, TerminalPrinted) else 0
        assert printed < 2 * 1024 * 1024
