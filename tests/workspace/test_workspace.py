"""`LocalWorkspace`: files and terminals together, and no command outlives the process."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from tests.workspace.helpers import Lifeline, Screen

import accord.workspace
from accord.errors import NotFound
from accord.testing.fake_clock import FakeClock, FakeTimer
from accord.workspace import (
    ExitStatus,
    LocalWorkspace,
    OutsideRoots,
    Roots,
    TerminalCommand,
    Terminals,
    Workspace,
)


@pytest.mark.rule(
    "file.read-result",
    "file.write-creates",
    "file.inside-roots",
    "terminal.environment",
    "terminal.exit-status",
    "terminal.kill-keeps-id",
    "terminal.released-id-fails",
)
async def test_an_agent_writes_a_file_and_runs_it(project: Path) -> None:
    workspace: Workspace = LocalWorkspace(Roots(project))
    script = project / "src" / "hello.sh"
    await workspace.write_text_file(script, "echo hello $1\nexit 3\n")
    assert await workspace.read_text_file(str(script), line=2, limit=1) == "exit 3\n"
    id = await workspace.create_terminal(
        "sh", [str(script), "you"], cwd=project, env={}, output_byte_limit=100
    )
    assert await workspace.wait_for_exit(id) == ExitStatus(exit_code=3)
    await workspace.kill_terminal(id)
    assert (await workspace.terminal_output(id)).output == "hello you\n"
    await workspace.release_terminal(id)
    with pytest.raises(NotFound):
        await workspace.terminal_output(id)
    with pytest.raises(OutsideRoots):
        await workspace.read_text_file("/etc/passwd")
    await workspace.aclose()


def test_every_name_in_all_can_be_imported() -> None:
    for name in accord.workspace.__all__:
        assert getattr(accord.workspace, name).__name__ == name
    with pytest.raises(AttributeError):
        accord.workspace.Nothing  # noqa: B018 # pyright: ignore


class SignallingClock(FakeClock):
    """Signals an event when a timer is set."""

    def __init__(self) -> None:
        super().__init__()
        self.set = asyncio.Event()

    def call_later(self, seconds: float, callback: object) -> FakeTimer:
        self.set.set()
        return super().call_later(seconds, callback)  # pyright: ignore[reportArgumentType]


async def test_wait_gives_open_output_a_short_time_after_the_exit(roots: Roots) -> None:
    clock = SignallingClock()
    terminals = Terminals(roots, clock=clock)
    id = await terminals.create(TerminalCommand("sleep 100000 & echo early; exit 4"))
    waiting = asyncio.create_task(terminals.wait(id))
    await clock.set.wait()
    await clock.advance(0.2)
    assert not waiting.done()
    assert terminals.output(id).exit_status is None
    await clock.advance(0.1)
    assert await waiting == ExitStatus(exit_code=4)
    assert terminals.output(id).output == "early\n"
    await terminals.aclose()


CLIENT = """
import asyncio, sys
from accord.workspace import Roots, TerminalCommand, Terminals

async def main():
    terminals = Terminals(Roots(sys.argv[1]), on_output=lambda id, text: print(text, flush=True))
    await terminals.create(TerminalCommand("exec 9>lifeline; sleep 100000 & echo ready; wait"))
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
async def test_commands_do_not_outlive_the_process_that_started_them(
    project: Path, sig: signal.Signals
) -> None:
    lifeline = Lifeline(project / "lifeline")
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, str(project), stdout=asyncio.subprocess.PIPE
    )
    assert client.stdout
    assert await client.stdout.readline() == b"ready\n"
    client.send_signal(sig)
    assert await client.wait() == -sig
    await lifeline.wait_closed()
    lifeline.close()


def test_terminals_work_on_uvloop_too(project: Path) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def talk() -> list[ExitStatus]:
        screen = Screen()
        terminals = Terminals(Roots(project), on_output=screen)
        ended = await terminals.create(TerminalCommand("echo done; exit 3"))
        killed = await terminals.create(TerminalCommand("echo ready; sleep 100000"))
        await asyncio.gather(screen.wait_for(ended, "done\n"), screen.wait_for(killed, "ready\n"))
        await terminals.kill(killed)
        statuses = [await terminals.wait(ended), await terminals.wait(killed)]
        await terminals.aclose()
        return statuses

    assert uvloop.run(talk()) == [ExitStatus(exit_code=3), ExitStatus(signal="SIGKILL")]
