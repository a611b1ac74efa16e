"""Process trees: they end with this process, however it ends; a tree can have a controlling terminal."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from held_pipe import HeldPipe
from loops import LOOPS
from tests.patience import PATIENCE

from accord.wire.process_posix import WATCHDOG, find_tree
from accord.wire.process_tree import ProcessExit, StopTimeouts, start_process

LOOP_FACTORIES = LOOPS
QUICK = StopTimeouts(leave=0.0, terminate=0.2)

one_loop = pytest.mark.asyncio(loop_factories=["asyncio"])
"""For tests that do not depend on the event loop of the test."""


@contextmanager
def parent_program(action: str, held_pipe: HeldPipe) -> Generator[tuple["subprocess.Popen[str]", list[int]]]:
    """The running parent program, with the pids of its child, its watchdog and its forked copy."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("parent_program.py")),
        action,
        str(held_pipe.path),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout is not None
        yield running, [int(word) for word in running.stdout.readline().split()]
        running.kill()


async def wait_for_exit(pid: int) -> None:
    """Wait for a process that is not a child of this one to end."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    loop.add_reader(fd, ended.set_result, None)
    try:
        async with asyncio.timeout(PATIENCE):
            await ended
    finally:
        loop.remove_reader(fd)
        os.close(fd)


@one_loop
async def test_the_whole_tree_ends_when_the_parent_is_killed(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    with parent_program("wait", held_pipe) as (running, [_, watchdog, _]):
        await held_pipe.wait_for_holders(3)
        running.kill()
        await held_pipe.wait_for_release()
        await wait_for_exit(watchdog)


@one_loop
async def test_the_watchdog_survives_ctrl_c_in_the_parents_process_group(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    with parent_program("ignore", held_pipe) as (running, _):
        await held_pipe.wait_for_holders(3)
        os.killpg(running.pid, signal.SIGINT)
        running.kill()
        await held_pipe.wait_for_release()


@one_loop
async def test_a_forked_copy_of_the_parent_does_not_keep_the_tree_alive(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    with parent_program("fork", held_pipe) as (running, [_, _, copy]):
        await held_pipe.wait_for_holders(3)
        running.kill()
        try:
            await held_pipe.wait_for_release()
        finally:
            os.kill(copy, signal.SIGKILL)


@one_loop
async def test_the_tree_ends_when_the_parent_exits_without_closing_it(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    with parent_program("leave", held_pipe) as (running, [_, watchdog, _]):
        await held_pipe.wait_for_holders(3)
        running.communicate("\n")
        await held_pipe.wait_for_release()
        await wait_for_exit(watchdog)


@one_loop
async def test_the_watchdog_ends_when_the_parent_exits_normally(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    with parent_program("close", held_pipe) as (running, [_, watchdog, _]):
        await held_pipe.wait_for_holders(3)
        out, _ = running.communicate("\n")
        assert (running.returncode, out) == (0, "")
        await held_pipe.wait_for_release()
        await wait_for_exit(watchdog)


async def test_a_killed_watchdog_is_replaced():
    first = start_process(["sleep", "1000"])
    assert WATCHDOG._shell is not None
    victim = WATCHDOG._shell.pid
    os.kill(victim, signal.SIGKILL)
    await wait_for_exit(victim)
    second = start_process(["sleep", "1000"])
    assert WATCHDOG._shell.pid != victim
    for tree in (first, second):
        assert await tree.end(QUICK) == ProcessExit(signal="SIGTERM")


async def test_a_tree_is_found_by_descent_group_and_session(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    apart_script = "echo $$ >&9; sh -c 'echo $$ >&9; sleep 1000; true'; true"
    script = 'exec 9>"$HELD_PIPE"; setsid sh -c "$APART" & echo $$ >&9; wait'
    tree = start_process(["sh", "-c", script], env={"HELD_PIPE": str(held_pipe.path), "APART": apart_script})
    holders = await held_pipe.wait_for_holders(3)
    members = find_tree(tree.pid)
    assert set(holders) <= set(members)
    tree.scan()
    os.kill(tree.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        assert await tree.wait() == ProcessExit(signal="SIGKILL")
    apart = next(member for member in members.values() if member.session != tree.pid)
    assert apart.pid not in find_tree(tree.pid), "its parent is gone, so it cannot be found by descent"
    assert apart.pid in find_tree(tree.pid, members.values())
    assert find_tree(tree.pid, [replace(apart, start_time=0)]) == {}, "another process reused the pid"
    await tree.end(QUICK)
    await held_pipe.wait_for_release()


async def test_terminate_and_kill_reach_the_whole_tree(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    script = 'exec 9>"$HELD_PIPE"; sh -c \'trap "" TERM; echo $$ >&9; sleep 1000\' & echo $$ >&9; wait'
    tree = start_process(["sh", "-c", script], env={"HELD_PIPE": str(held_pipe.path)})
    await held_pipe.wait_for_holders(2)
    tree.terminate()
    async with asyncio.timeout(PATIENCE):
        assert await tree.wait() == ProcessExit(signal="SIGTERM")
    assert tree.exit == ProcessExit(signal="SIGTERM")
    tree.kill()
    await held_pipe.wait_for_release()
    assert await tree.end() == ProcessExit(signal="SIGTERM")


async def test_a_stopped_tree_can_be_terminated():
    tree = start_process(["sleep", "1000"])
    os.kill(tree.pid, signal.SIGSTOP)
    assert await tree.end(StopTimeouts(leave=0.0, terminate=30.0)) == ProcessExit(signal="SIGTERM")


async def test_a_command_can_have_a_controlling_terminal():
    master, slave = pty.openpty()
    code = (
        "import os, signal; open('/dev/tty').close(); "
        "print(os.ttyname(0), os.ttyname(2), flush=True); signal.pause()"
    )
    tree = start_process([sys.executable, "-SEc", code], tty=os.ttyname(slave))
    assert os.read(master, 100).decode().split() == [os.ttyname(slave)] * 2
    os.write(master, b"\x03")
    async with asyncio.timeout(PATIENCE):
        assert await tree.wait() == ProcessExit(signal="SIGINT")
    await tree.end(QUICK)
    os.close(master)
    os.close(slave)


@one_loop
async def test_a_child_gets_default_signals_when_this_process_ignores_or_blocks_them():
    def ignored_by(pid: int) -> int:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("SigIgn:")[2].split()[0], 16)

    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        tree = start_process([sys.executable, "-SEc", "import signal; signal.pause()"])
        ignoring = ignored_by(os.getpid())
        assert all(ignoring >> number - 1 & 1 for number in numbers)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == {signal.SIGTERM}
        assert not any(ignored_by(tree.pid) >> number - 1 & 1 for number in numbers)
        tree.terminate()
        async with asyncio.timeout(PATIENCE):
            assert await tree.wait() == ProcessExit(signal="SIGTERM")
        await tree.end(QUICK)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            signal.signal(number, handler)
