"""Commands as processes: their terminal, their signals, what they leave behind, and how they end."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.policy.sandbox.cage import PRELUDE, PYTHON, Cage, refused

from accord.policy.sandbox import probe
from accord.policy.sandbox.launch import abi
from accord.wire.children import Exit, Patience, ProcessTree, start

AT_ONCE = Patience(leave=0.0, terminate=20.0)


def begin(cage: Cage, line: str, out: int) -> ProcessTree:
    """Start a shell line in the sandbox the way the agent does."""
    confined = cage.sandbox.wrap(["/bin/sh", "-c", line])
    return start(confined.argv, cwd=confined.cwd, env=confined.over_ours, stdout=out, stderr=out)


async def read_all(fd: int) -> str:
    """Everything until nobody holds the other end any more."""

    def drain() -> str:
        with open(fd) as file:
            return file.read()

    return await asyncio.to_thread(drain)


async def read_line(fd: int) -> str:
    return (await asyncio.to_thread(os.read, fd, 100)).decode().strip()


def test_exit_codes_and_words_pass_through(cage: Cage):
    assert cage.shell("exit 7").code == 7
    words = ["a b", "", "$HOME", "'", "=", "--", "-c", "ü\n"]
    code = "import sys; print(sys.argv[1:])"
    assert cage.run(PYTHON, "-I", "-S", "-c", code, *words).out == f"{words}\n"


def test_a_program_with_an_equals_sign_in_its_name(cage: Cage):
    program = cage.project / "a=b"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    assert cage.run(str(program)).out == "ran\n"


def test_a_program_that_is_not_there(cage: Cage):
    done = cage.run("no-such-program")
    assert done.code == 127
    assert "no-such-program" in done.err


async def test_a_background_process_does_not_outlive_the_command(mounted: Cage):
    ours, theirs = os.pipe()
    tree = begin(mounted, "setsid sleep 1000 & echo started", theirs)
    os.close(theirs)
    assert await read_all(ours) == "started\n"
    assert await tree.end(AT_ONCE) == Exit(0)


async def test_a_background_process_ends_with_the_tree(cage: Cage):
    ours, theirs = os.pipe()
    tree = begin(cage, "setsid sleep 1000 & sleep 1000 & echo started; wait", theirs)
    os.close(theirs)
    assert await read_line(ours) == "started"
    tree.look()
    await tree.end(Patience(leave=0.0, terminate=0.2))
    assert await read_all(ours) == ""


async def test_a_command_that_is_asked_to_end_can_tidy_up(cage: Cage):
    """Killed at once, git for one would leave its locks behind."""
    ours, theirs = os.pipe()
    tree = begin(
        cage, "trap 'echo tidy > left; exit 3' TERM; echo ready; while :; do sleep 0.05; done", theirs
    )
    os.close(theirs)
    assert await read_line(ours) == "ready"
    assert await tree.end(AT_ONCE) == Exit(3)
    assert (cage.project / "left").read_text() == "tidy\n"
    os.close(ours)


async def test_an_interrupt_reaches_the_command(cage: Cage):
    ours, theirs = os.pipe()
    tree = begin(cage, "trap 'exit 4' INT; echo ready; while :; do sleep 0.05; done", theirs)
    os.close(theirs)
    assert await read_line(ours) == "ready"
    tree.interrupt()
    assert await tree.wait() == Exit(4)
    await tree.end(AT_ONCE)
    os.close(ours)


def test_the_command_ends_when_its_parent_is_killed(cage: Cage, tmp_path: Path):
    confined = cage.sandbox.wrap(["/bin/sh", "-c", "echo ready; exec sleep 1000"])
    script = "import json, os, subprocess, sys; c = json.loads(sys.argv[1]); subprocess.run(c[0], env=c[1], cwd=c[2])"
    words = json.dumps([confined.argv, confined.env, confined.cwd])
    ours, theirs = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", script, words], stdout=theirs, start_new_session=True
    ) as parent:
        os.close(theirs)
        with open(ours) as out:
            assert out.readline() == "ready\n"
            parent.kill()
            assert out.read() == ""  # comes to its end only when nobody holds it any more


async def test_descriptors_are_not_inherited(cage: Cage):
    ours, theirs = os.pipe()
    secret = os.open(cage.outside, os.O_RDONLY)
    os.set_inheritable(secret, True)
    tree = begin(cage, "ls /proc/self/fd; cat /proc/self/fd/*/kept", theirs)
    os.close(theirs)
    said = await read_all(ours)
    await tree.end(AT_ONCE)
    os.close(secret)
    assert [line for line in said.splitlines() if line.isdigit()] == [
        "0",
        "1",
        "2",
        "3",
    ]  # 3 is the folder that ls reads
    assert "the-secret-itself" not in said


def test_the_launcher_closes_what_was_handed_to_it(landlocked: Cage):
    folder = os.open(landlocked.outside, os.O_RDONLY)
    done = landlocked.run("/bin/sh", "-c", f"cat /proc/self/fd/{folder}/kept", pass_fds=[folder])
    os.close(folder)
    assert done.code != 0
    assert done.out == ""


def test_processes_outside_are_not_signalled(cage: Cage):
    if not isinstance(cage.sandbox._backend, type(probe.bubblewrap().backend)) and abi() < 6:
        pytest.skip("this kernel's Landlock is older than version 6, which knows signals; the report says so")
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as other:
        lines = cage.attempt(
            "attempt(os.kill, int(sys.argv[1]), 9); attempt(os.killpg, int(sys.argv[1]), 9)", other.pid
        )
        assert other.poll() is None
        other.kill()
    assert refused(lines)


def test_privileges_cannot_be_gained(cage: Cage):
    status = cage.shell("cat /proc/self/status").out
    assert "NoNewPrivs:\t1" in status
    kept = 1 << 1 if os.geteuid() == 0 else 0  # root works in folders of others
    effective = int(next(line for line in status.splitlines() if line.startswith("CapEff")).split()[1], 16)
    assert effective & ~kept == 0


async def on_a_terminal(cage: Cage, *argv: str) -> str:
    """What a command says whose terminal is a new one."""
    ours, theirs = pty.openpty()
    confined = cage.sandbox.wrap(argv)
    tree = start(confined.argv, cwd=confined.cwd, env=confined.over_ours, tty=os.ttyname(theirs))
    exited = await tree.wait()
    os.close(theirs)
    said = b""
    with suppress(OSError):  # how a terminal that nobody else holds says that it is over
        while chunk := os.read(ours, 65536):
            said += chunk
    os.close(ours)
    await tree.end(AT_ONCE)
    assert exited == Exit(0), said
    return said.decode()


async def test_a_terminal_works(cage: Cage):
    code = (
        "import os, termios, tty\n"
        "assert all(os.isatty(fd) for fd in (0, 1, 2)); assert os.getpgrp() == os.tcgetpgrp(0)\n"
        "os.close(os.open('/dev/tty', os.O_RDWR)); tty.setraw(0); print(os.get_terminal_size(0).lines)\n"
    )
    assert (await on_a_terminal(cage, PYTHON, "-I", "-c", code)).strip() == "0"


async def test_nothing_can_be_put_into_the_terminals_input(cage: Cage):
    code = PRELUDE + (
        "import fcntl\nTIOCSTI = 0x5412\n"
        "for fd in (0, os.open('/dev/tty', os.O_RDWR)): attempt(fcntl.ioctl, fd, TIOCSTI, b'x')\n"
        "high = (1 << 32) | TIOCSTI\n"
        "def disguised():\n"
        "    if libc.ioctl(0, ctypes.c_ulong(high), ctypes.byref(ctypes.c_char(b'x'))): raise OSError(ctypes.get_errno(), 'ioctl')\n"
        "attempt(disguised)"
    )
    lines = (await on_a_terminal(cage, PYTHON, "-I", "-S", "-c", code)).splitlines()
    assert len(lines) == 3
    assert refused(lines)


async def test_landlock_knows_no_terminals_but_the_commands_own(landlocked: Cage):
    """They all lie in one folder, those of other programs among them."""
    ours, theirs = pty.openpty()
    lines = landlocked.attempt(
        "attempt(os.open, sys.argv[1], os.O_RDWR); attempt(os.openpty)", os.ttyname(theirs)
    )
    os.close(ours)
    os.close(theirs)
    assert refused(lines)


def test_a_file_system_of_its_own_has_terminals_of_its_own(mounted: Cage):
    ours, theirs = pty.openpty()
    lines = mounted.attempt(
        "attempt(os.open, sys.argv[1], os.O_RDWR); attempt(os.openpty)", os.ttyname(theirs)
    )
    os.close(ours)
    os.close(theirs)
    assert refused(lines[:1])
    assert lines[1].startswith("done:")
