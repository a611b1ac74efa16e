"""The terminals of an agent, on a pseudo-terminal and on a pipe: create, output, wait, kill, release."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.workspace.helpers import Lifeline, Screen

from accord.errors import InvalidParams, NotFound, RequestCancelled
from accord.workspace.roots import OutsideRoots, Roots
from accord.workspace.terminal_command import TerminalCommand
from accord.workspace.terminals import ExitStatus, PtySize, TerminalOutput, Terminals

FOR_EVER = "sleep 100000"


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture(params=[PtySize(), None], ids=["pty", "pipe"])
async def terminals(request: pytest.FixtureRequest, roots: Roots, screen: Screen) -> AsyncIterator[Terminals]:
    terminals = Terminals(roots, pty=request.param, on_output=screen)
    yield terminals
    await terminals.aclose()


@pytest.fixture
def lifeline(project: Path) -> Iterator[Lifeline]:
    lifeline = Lifeline(project / "lifeline")
    yield lifeline
    lifeline.close()


def sh(script: str, *args: str, **fields: Any) -> TerminalCommand:
    return TerminalCommand("/bin/sh", args=["-c", script, "sh", *args], **fields)


async def result_of(terminals: Terminals, command: TerminalCommand) -> TerminalOutput:
    """Run a command to its end and release its terminal."""
    id = await terminals.create(command)
    status = await terminals.wait(id)
    output = terminals.output(id)
    assert output.exit_status == status
    assert await terminals.release(id) == output
    return output


@pytest.mark.rule("terminal.create-at-once", "terminal.output-members")
async def test_create_returns_while_the_command_runs(terminals: Terminals, screen: Screen) -> None:
    id = await terminals.create(sh(f"echo started; {FOR_EVER}"))
    await screen.wait_for(id, "started\n")
    assert terminals.output(id) == TerminalOutput("started\n", truncated=False, exit_status=None)


@pytest.mark.rule("terminal.environment")
async def test_args_env_and_cwd_are_used(terminals: Terminals, project: Path) -> None:
    (project / "sub dir").mkdir()
    command = sh(
        'echo "$1|$2|$NAME|$PWD"; pwd', "a b", "$HOME *", env={"NAME": "väl=ue"}, cwd=project / "sub dir"
    )
    output = await result_of(terminals, command)
    assert output.output == f"a b|$HOME *|väl=ue|{project}/sub dir\n{project}/sub dir\n"


@pytest.mark.rule("terminal.environment", "terminal.create-null-params")
async def test_the_default_cwd_is_that_of_the_session(terminals: Terminals, project: Path) -> None:
    command = TerminalCommand("pwd", args=None, env=None, cwd=None, output_byte_limit=None)
    assert await result_of(terminals, command) == TerminalOutput(
        f"{project}\n", False, ExitStatus(exit_code=0)
    )


@pytest.mark.rule("terminal.output-members")
async def test_stdout_and_stderr_keep_the_order_of_writing(terminals: Terminals) -> None:
    output = await result_of(terminals, sh("echo 1; echo 2 >&2; echo 3; printf '4\\r\\n' >&2; printf 5"))
    assert output.output == "1\n2\n3\n4\r\n5"


@pytest.mark.rule("terminal.exit-status")
@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", ExitStatus(exit_code=0)),
        ("exit 3", ExitStatus(exit_code=3)),
        ("exit 255", ExitStatus(exit_code=255)),
        ("kill -9 $$", ExitStatus(signal="SIGKILL")),
        ("kill -SEGV $$", ExitStatus(signal="SIGSEGV")),
        ("kill -TERM $$", ExitStatus(signal="SIGTERM")),
    ],
)
async def test_wait_returns_the_exit_code_or_signal(
    terminals: Terminals, script: str, status: ExitStatus
) -> None:
    id = await terminals.create(sh(script))
    assert await asyncio.gather(terminals.wait(id), terminals.wait(id)) == [status, status]
    assert await terminals.wait(id) == status


@pytest.mark.rule("terminal.output-members")
async def test_the_exit_status_comes_with_all_of_the_output(terminals: Terminals) -> None:
    for _ in range(10):
        output = await result_of(
            terminals, sh("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; exit 7")
        )
        assert output.output == "".join(f"line {number}\n" for number in range(3000))
        assert output.exit_status == ExitStatus(exit_code=7)


@pytest.mark.rule("terminal.calls-during-wait")
async def test_other_calls_work_during_a_wait(terminals: Terminals, screen: Screen, project: Path) -> None:
    os.mkfifo(project / "go")
    id = await terminals.create(sh("echo ready; cat go; exit 5"))
    waiting = asyncio.create_task(terminals.wait(id))
    await screen.wait_for(id, "ready")
    assert terminals.output(id).exit_status is None
    other = await result_of(terminals, sh("echo on > go; echo other"))
    assert other.output == "other\n"
    assert await waiting == ExitStatus(exit_code=5)
    assert terminals.output(id).output == "ready\non\n"


@pytest.mark.rule("terminal.kill-keeps-id")
async def test_output_and_wait_work_after_a_kill(terminals: Terminals, screen: Screen) -> None:
    id = await terminals.create(sh(f"trap '' TERM INT HUP; echo stubborn; {FOR_EVER}; {FOR_EVER}"))
    waiting = asyncio.create_task(terminals.wait(id))
    await screen.wait_for(id, "stubborn")
    await terminals.kill(id)
    killed = ExitStatus(signal="SIGKILL")
    assert terminals.output(id) == TerminalOutput("stubborn\n", False, killed)
    assert await waiting == killed
    assert await terminals.wait(id) == killed
    await terminals.kill(id)
    assert terminals.output(id).exit_status == killed


async def test_a_kill_after_the_exit_changes_nothing(terminals: Terminals) -> None:
    id = await terminals.create(sh("echo done; exit 2"))
    await terminals.wait(id)
    await terminals.kill(id)
    assert terminals.output(id) == TerminalOutput("done\n", False, ExitStatus(exit_code=2))


@pytest.mark.rule("terminal.kill-keeps-id")
@pytest.mark.parametrize(
    "child",
    [
        FOR_EVER,
        f"sh -c '{FOR_EVER}; true'",
        f"setsid {FOR_EVER}",
        f"nohup {FOR_EVER}",
        f"for i in 1 2 3 4 5 6 7 8; do setsid {FOR_EVER} & done; true",
        f"for i in 1 2 3 4; do sh -c 'setsid sh -c \"setsid {FOR_EVER}; true\"; true' & done; true",
    ],
)
async def test_a_kill_ends_the_process_tree_of_the_command(
    terminals: Terminals, screen: Screen, lifeline: Lifeline, child: str
) -> None:
    id = await terminals.create(sh(f"exec 9>lifeline; {child} & echo ready; wait"))
    await screen.wait_for(id, "ready")
    await terminals.kill(id)
    await lifeline.wait_closed()
    assert terminals.output(id).exit_status == ExitStatus(signal="SIGKILL")


@pytest.mark.rule("terminal.release-kills")
async def test_a_release_ends_the_command_and_its_background_processes(
    terminals: Terminals, screen: Screen, lifeline: Lifeline
) -> None:
    running = await terminals.create(sh(f"exec 9>lifeline; echo ready; {FOR_EVER}"))
    ended = await terminals.create(sh(f"exec 9>lifeline; {FOR_EVER} & echo ready"))
    await asyncio.gather(screen.wait_for(running, "ready"), terminals.wait(ended))
    await asyncio.gather(terminals.release(running), terminals.release(ended))
    await lifeline.wait_closed()


@pytest.mark.rule("terminal.released-id-fails", "terminal.unknown-id")
async def test_a_released_or_unknown_id_raises_not_found(terminals: Terminals, roots: Roots) -> None:
    released = await terminals.create(sh("exit 0"))
    await terminals.release(released)
    other_terminals = Terminals(roots)
    elsewhere = await other_terminals.create(sh("exit 0"))
    for id in (released, "nope", "", elsewhere):
        for call in (terminals.wait, terminals.kill, terminals.release):
            with pytest.raises(NotFound) as unknown:
                await call(id)
            assert (unknown.value.code, unknown.value.data) == (-32002, {"terminalId": id})
        with pytest.raises(NotFound):
            terminals.output(id)
    await other_terminals.aclose()


@pytest.mark.rule("terminal.release-kills", "terminal.released-id-fails")
async def test_a_release_ends_pending_waits(terminals: Terminals, screen: Screen) -> None:
    id = await terminals.create(sh(f"echo ready; {FOR_EVER}"))
    waiting = [asyncio.create_task(terminals.wait(id)) for _ in range(3)]
    await screen.wait_for(id, "ready")
    killing = asyncio.create_task(terminals.kill(id))
    await asyncio.sleep(0)  # let it start: the terminal is found and the kill begins
    await terminals.release(id)
    assert await asyncio.gather(*waiting) == [ExitStatus(signal="SIGKILL")] * 3
    await killing


async def test_cancelling_one_wait_does_not_affect_another(terminals: Terminals, screen: Screen) -> None:
    id = await terminals.create(sh(f"echo ready; {FOR_EVER}"))
    cancelled, remaining = asyncio.create_task(terminals.wait(id)), asyncio.create_task(terminals.wait(id))
    await screen.wait_for(id, "ready")
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert terminals.output(id).exit_status is None
    await terminals.kill(id)
    assert await remaining == ExitStatus(signal="SIGKILL")


async def test_a_background_process_does_not_delay_the_exit(
    terminals: Terminals, screen: Screen, project: Path
) -> None:
    os.mkfifo(project / "go")
    id = await terminals.create(sh("(cat go; echo late) & echo early; exit 4"))
    assert await terminals.wait(id) == ExitStatus(exit_code=4)
    assert terminals.output(id).output == "early\n"
    await result_of(terminals, sh("echo now > go"))
    await screen.wait_for(id, "late")
    assert terminals.output(id) == TerminalOutput("early\nnow\nlate\n", False, ExitStatus(exit_code=4))


async def test_output_from_the_background_does_not_delay_the_exit(terminals: Terminals) -> None:
    id = await terminals.create(sh("yes & exit 4", output_byte_limit=100))
    assert await terminals.wait(id) == ExitStatus(exit_code=4)
    await terminals.release(id)


async def test_standard_input_is_empty(terminals: Terminals) -> None:
    assert (await result_of(terminals, sh("cat; read x || echo nothing"))).output == "nothing\n"


async def test_the_command_has_no_controlling_terminal(terminals: Terminals) -> None:
    output = await result_of(
        terminals, sh("(exec 3<>/dev/tty) 2>/dev/null && echo asked || echo no terminal")
    )
    assert output.output == "no terminal\n"


async def test_aclose_ends_all_commands_and_refuses_new_ones(
    terminals: Terminals, screen: Screen, lifeline: Lifeline
) -> None:
    ids = [await terminals.create(sh(f"exec 9>lifeline; echo ready; {FOR_EVER}")) for _ in range(3)]
    await asyncio.gather(*(screen.wait_for(id, "ready") for id in ids))
    starting = asyncio.create_task(terminals.create(sh(f"exec 9>lifeline; {FOR_EVER}")))
    await asyncio.sleep(0)
    await terminals.aclose()
    await lifeline.wait_closed()
    with pytest.raises(RequestCancelled):
        await starting
    with pytest.raises(RequestCancelled):
        await terminals.create(sh("exit 0"))
    with pytest.raises(NotFound):
        terminals.output(ids[0])


async def test_release_all_allows_new_terminals(terminals: Terminals, screen: Screen) -> None:
    id = await terminals.create(sh(f"echo ready; {FOR_EVER}"))
    waiting = asyncio.create_task(terminals.wait(id))
    await screen.wait_for(id, "ready")
    await terminals.release_all()
    assert await waiting == ExitStatus(signal="SIGKILL")
    assert (await result_of(terminals, sh("echo again"))).output == "again\n"


async def test_a_release_closes_all_file_descriptors(terminals: Terminals) -> None:
    await result_of(terminals, sh("echo once"))
    before = sorted(os.listdir("/proc/self/fd"))
    await result_of(terminals, sh("echo twice"))
    background = await terminals.create(sh(f"{FOR_EVER} & echo thrice"))
    await terminals.wait(background)
    await terminals.release(background)
    with pytest.raises(InvalidParams):
        await terminals.create(TerminalCommand("no-such-program"))
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_an_error_in_the_output_callback_is_reported(roots: Roots) -> None:
    def broken(_id: str, _text: str) -> None:
        raise ZeroDivisionError

    reported: list[BaseException | None] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(context.get("exception"))
    )
    terminals = Terminals(roots, on_output=broken)
    assert (await result_of(terminals, sh("echo fine; exit 1"))).output == "fine\n"
    assert [type(error) for error in reported] == [ZeroDivisionError]


@pytest.mark.rule("terminal.environment")
@pytest.mark.parametrize("cwd", ["{outside}", "/", "{project}/../outside", "{project}/link"])
async def test_a_command_starts_only_inside_the_roots(
    terminals: Terminals, project: Path, outside: Path, cwd: str
) -> None:
    (project / "link").symlink_to(outside)
    with pytest.raises(OutsideRoots):
        await terminals.create(sh("touch started", cwd=cwd.format(project=project, outside=outside)))
    assert not (outside / "started").exists()


@pytest.mark.parametrize("cwd", ["{project}/none", "{project}/file", "sub", "", "~"])
async def test_a_cwd_that_is_not_a_folder_is_refused(terminals: Terminals, project: Path, cwd: str) -> None:
    (project / "file").write_text("")
    with pytest.raises(InvalidParams):
        await terminals.create(sh("exit 0", cwd=cwd.format(project=project)))


@pytest.mark.rule("terminal.create-invalid-params")
@pytest.mark.parametrize(
    "fields",
    [
        {"args": "x"},
        {"args": [1]},
        {"args": {"0": "x"}},
        {"args": ["a\0b"]},
        {"args": ["\ud83d"]},
        {"env": [("A", "b")]},
        {"env": {"A": 1}},
        {"env": {"": "b"}},
        {"env": {"A=B": "c"}},
        {"env": {"A": "b\0"}},
        {"cwd": 5},
        {"output_byte_limit": "1"},
        {"output_byte_limit": -1},
        {"output_byte_limit": 1.5},
        {"output_byte_limit": True},
        {"command": 5},
        {"command": ""},
        {"command": "  "},
        {"command": "touch\0"},
        {"command": None},
    ],
    ids=repr,
)
async def test_a_field_of_the_wrong_type_starts_nothing(
    terminals: Terminals, project: Path, fields: dict[str, Any]
) -> None:
    request: dict[str, Any] = {"command": "touch started", **fields}
    with pytest.raises(InvalidParams) as refused:
        await terminals.create(TerminalCommand(**request))
    assert refused.value.code == -32602
    assert not (project / "started").exists()
