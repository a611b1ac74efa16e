"""Trees of processes: they end with us, however we end; and a terminal can lead one."""

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
from lifeline import Lifeline
from loops import LOOPS

from accord.wire.children import Exit, Patience, start
from accord.wire.kin import kin
from accord.wire.watchdog import WATCHDOG

LOOP_FACTORIES = LOOPS
QUICK = Patience(leave=0.0, terminate=0.2)

one_loop = pytest.mark.asyncio(loop_factories=["asyncio"])
"""For tests whose processes do not depend on the loop of the test."""


@contextmanager
def parent(deed: str, lifeline: Lifeline) -> Generator[tuple["subprocess.Popen[str]", list[int]]]:
    """The parent program, and the numbers it said: of its child, its watchdog and its forked copy."""
    command = [sys.executable, str(Path(__file__).with_name("parent.py")), deed, str(lifeline.path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout is not None
        yield running, [int(word) for word in running.stdout.readline().split()]
        running.kill()


async def over(pid: int) -> None:
    """Wait for a process that is not our child to end."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    loop.add_reader(fd, ended.set_result, None)
    try:
        async with asyncio.timeout(30):
            await ended
    finally:
        loop.remove_reader(fd)
        os.close(fd)


@one_loop
async def test_the_whole_tree_ends_when_the_parent_is_killed(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    with parent("wait", lifeline) as (running, [_, watchdog, _]):
        await lifeline.holders(3)
        running.kill()
        await lifeline.gone()
        await over(watchdog)


@one_loop
async def test_the_watchdog_outlives_a_ctrl_c_to_the_parents_group(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    with parent("ignore", lifeline) as (running, _):
        await lifeline.holders(3)
        os.killpg(running.pid, signal.SIGINT)
        running.kill()
        await lifeline.gone()


@one_loop
async def test_a_forked_copy_of_the_parent_does_not_keep_the_tree_alive(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    with parent("fork", lifeline) as (running, [_, _, copy]):
        await lifeline.holders(3)
        running.kill()
        try:
            await lifeline.gone()
        finally:
            os.kill(copy, signal.SIGKILL)


@one_loop
async def test_a_parent_that_ends_without_closing_takes_its_tree_along(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    with parent("leave", lifeline) as (running, [_, watchdog, _]):
        await lifeline.holders(3)
        running.communicate("\n")
        await lifeline.gone()
        await over(watchdog)


@one_loop
async def test_the_watchdog_goes_with_a_parent_that_ends_in_order(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    with parent("close", lifeline) as (running, [_, watchdog, _]):
        await lifeline.holders(3)
        out, _ = running.communicate("\n")
        assert (running.returncode, out) == (0, "")
        await lifeline.gone()
        await over(watchdog)


async def test_a_watchdog_that_was_killed_is_replaced():
    first = start(["sleep", "1000"])
    assert WATCHDOG._shell is not None
    victim = WATCHDOG._shell.pid
    os.kill(victim, signal.SIGKILL)
    await over(victim)
    second = start(["sleep", "1000"])
    assert WATCHDOG._shell.pid != victim
    for tree in (first, second):
        assert await tree.end(QUICK) == Exit(signal="SIGTERM")


async def test_a_tree_is_found_by_descent_by_group_and_by_session(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    apart_script = "echo $$ >&9; sh -c 'echo $$ >&9; sleep 1000; true'; true"
    script = 'exec 9>"$LIFELINE"; setsid sh -c "$APART" & echo $$ >&9; wait'
    tree = start(["sh", "-c", script], env={"LIFELINE": str(lifeline.path), "APART": apart_script})
    holders = await lifeline.holders(3)
    members = kin(tree.pid)
    assert set(holders) <= set(members)
    tree.look()
    os.kill(tree.pid, signal.SIGKILL)
    async with asyncio.timeout(30):
        assert await tree.wait() == Exit(signal="SIGKILL")
    apart = next(member for member in members.values() if member.session != tree.pid)
    assert apart.pid not in kin(tree.pid), "its parent is gone, and with it the way to it"
    assert apart.pid in kin(tree.pid, members.values())
    assert kin(tree.pid, [replace(apart, born=0)]) == {}, "another of the same number is nobody of ours"
    await tree.end(QUICK)
    await lifeline.gone()


async def test_terminate_and_kill_reach_the_whole_tree(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    script = 'exec 9>"$LIFELINE"; sh -c \'trap "" TERM; echo $$ >&9; sleep 1000\' & echo $$ >&9; wait'
    tree = start(["sh", "-c", script], env={"LIFELINE": str(lifeline.path)})
    await lifeline.holders(2)
    tree.terminate()
    async with asyncio.timeout(30):
        assert await tree.wait() == Exit(signal="SIGTERM")
    assert tree.exit == Exit(signal="SIGTERM")
    tree.kill()
    await lifeline.gone()
    assert await tree.end() == Exit(signal="SIGTERM")


async def test_a_stopped_tree_can_be_ended():
    tree = start(["sleep", "1000"])
    os.kill(tree.pid, signal.SIGSTOP)
    assert await tree.end(Patience(leave=0.0, terminate=30.0)) == Exit(signal="SIGTERM")


async def test_a_command_can_lead_a_terminal():
    master, slave = pty.openpty()
    code = "import os, signal; open('/dev/tty').close(); print(os.ttyname(0), os.ttyname(2), flush=True); signal.pause()"
    tree = start([sys.executable, "-SEc", code], tty=os.ttyname(slave))
    assert os.read(master, 100).decode().split() == [os.ttyname(slave)] * 2
    os.write(master, b"\x03")
    async with asyncio.timeout(30):
        assert await tree.wait() == Exit(signal="SIGINT")
    await tree.end(QUICK)
    os.close(master)
    os.close(slave)


@one_loop
async def test_a_child_has_default_signals_where_this_process_ignores_or_blocks_them():
    def ignored_by(pid: int) -> int:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("SigIgn:")[2].split()[0], 16)

    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        tree = start([sys.executable, "-SEc", "import signal; signal.pause()"])
        ignoring = ignored_by(os.getpid())
        assert all(ignoring >> number - 1 & 1 for number in numbers)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == {signal.SIGTERM}
        assert not any(ignored_by(tree.pid) >> number - 1 & 1 for number in numbers)
        tree.terminate()
        async with asyncio.timeout(30):
            assert await tree.wait() == Exit(signal="SIGTERM")
        await tree.end(QUICK)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            signal.signal(number, handler)
