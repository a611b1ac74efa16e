"""Commands as processes in a sandbox: terminals, signals, background processes, exit codes."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.policy.sandbox.sandbox_harness import PRELUDE, PYTHON, SandboxHarness, refused

from accord.policy.sandbox import sandbox
from accord.policy.sandbox.landlock_launcher import landlock_abi
from accord.wire.process_tree import ProcessExit, ProcessTree, StopTimeouts, start_process

AT_ONCE = StopTimeouts(leave=0.0, terminate=20.0)


def begin(harness: SandboxHarness, line: str, out: int) -> ProcessTree:
    """Start a shell line in the sandbox the way the agent does."""
    confined = harness.sandbox.wrap(["/bin/sh", "-c", line])
    return start_process(confined.argv, cwd=confined.cwd, env=confined.env_changes, stdout=out, stderr=out)


async def read_all(fd: int) -> str:
    """Read until every process has closed the other end."""

    def drain() -> str:
        with open(fd) as file:
            return file.read()

    return await asyncio.to_thread(drain)


async def read_line(fd: int) -> str:
    return (await asyncio.to_thread(os.read, fd, 100)).decode().strip()


def test_exit_codes_and_arguments_are_passed_through(harness: SandboxHarness):
    assert harness.shell("exit 7").code == 7
    words = ["a b", "", "$HOME", "'", "=", "--", "-c", "ü\n"]
    code = "import sys; print(sys.argv[1:])"
    assert harness.run(PYTHON, "-I", "-S", "-c", code, *words).out == f"{words}\n"


def test_a_program_with_an_equals_sign_in_its_name_runs(harness: SandboxHarness):
    program = harness.project / "a=b"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    assert harness.run(str(program)).out == "ran\n"


def test_a_missing_program_exits_with_127(harness: SandboxHarness):
    done = harness.run("no-such-program")
    assert done.code == 127
    assert "no-such-program" in done.err


async def test_a_background_process_does_not_outlive_the_command(mounted: SandboxHarness):
    ours, theirs = os.pipe()
    tree = begin(mounted, "setsid sleep 1000 & echo started", theirs)
    os.close(theirs)
    assert await read_all(ours) == "started\n"
    assert await tree.end(AT_ONCE) == ProcessExit(0)


async def test_a_background_process_ends_with_the_process_tree(harness: SandboxHarness):
    ours, theirs = os.pipe()
    tree = begin(harness, "setsid sleep 1000 & sleep 1000 & echo started; wait", theirs)
    os.close(theirs)
    assert await read_line(ours) == "started"
    tree.scan()
    await tree.end(StopTimeouts(leave=0.0, terminate=0.2))
    assert await read_all(ours) == ""


async def test_a_terminated_command_can_clean_up(harness: SandboxHarness):
    """A process that is killed at once, such as git, leaves its lock files behind."""
    ours, theirs = os.pipe()
    tree = begin(
        harness, "trap 'echo tidy > left; exit 3' TERM; echo ready; while :; do sleep 0.05; done", theirs
    )
    os.close(theirs)
    assert await read_line(ours) == "ready"
    assert await tree.end(AT_ONCE) == ProcessExit(3)
    assert (harness.project / "left").read_text() == "tidy\n"
    os.close(ours)


async def test_an_interrupt_reaches_the_command(harness: SandboxHarness):
    ours, theirs = os.pipe()
    tree = begin(harness, "trap 'exit 4' INT; echo ready; while :; do sleep 0.05; done", theirs)
    os.close(theirs)
    assert await read_line(ours) == "ready"
    tree.interrupt()
    assert await tree.wait() == ProcessExit(4)
    await tree.end(AT_ONCE)
    os.close(ours)


def test_the_command_ends_when_its_parent_is_killed(harness: SandboxHarness, tmp_path: Path):
    confined = harness.sandbox.wrap(["/bin/sh", "-c", "echo ready; exec sleep 1000"])
    script = (
        "import json, os, subprocess, sys; c = json.loads(sys.argv[1]); "
        "subprocess.run(c[0], env=c[1], cwd=c[2])"
    )
    words = json.dumps([confined.argv, confined.env, confined.cwd])
    ours, theirs = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", script, words], stdout=theirs, start_new_session=True
    ) as parent:
        os.close(theirs)
        with open(ours) as out:
            assert out.readline() == "ready\n"
            parent.kill()
            assert out.read() == ""  # ends only when no process holds it any more


async def test_file_descriptors_are_not_inherited(harness: SandboxHarness):
    ours, theirs = os.pipe()
    secret = os.open(harness.outside_path, os.O_RDONLY)
    os.set_inheritable(secret, True)
    tree = begin(harness, "ls /proc/self/fd; cat /proc/self/fd/*/kept", theirs)
    os.close(theirs)
    output = await read_all(ours)
    await tree.end(AT_ONCE)
    os.close(secret)
    assert [line for line in output.splitlines() if line.isdigit()] == [
        "0",
        "1",
        "2",
        "3",
    ]  # 3 is the folder that ls reads
    assert "the-secret-itself" not in output


def test_the_launcher_closes_inherited_descriptors(landlocked: SandboxHarness):
    folder = os.open(landlocked.outside_path, os.O_RDONLY)
    done = landlocked.run("/bin/sh", "-c", f"cat /proc/self/fd/{folder}/kept", pass_fds=[folder])
    os.close(folder)
    assert done.code != 0
    assert done.out == ""


def test_processes_outside_cannot_be_signalled(harness: SandboxHarness):
    if not isinstance(harness.sandbox._backend, type(sandbox.bubblewrap().backend)) and landlock_abi() < 6:
        pytest.skip("this kernel's Landlock is older than version 6, which knows signals; the report says so")
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as other:
        lines = harness.attempt(
            "attempt(os.kill, int(sys.argv[1]), 9); attempt(os.killpg, int(sys.argv[1]), 9)", other.pid
        )
        assert other.poll() is None
        other.kill()
    assert refused(lines)


def test_privileges_cannot_be_gained(harness: SandboxHarness):
    status = harness.shell("cat /proc/self/status").out
    assert "NoNewPrivs:\t1" in status
    kept = 1 << 1 if os.geteuid() == 0 else 0  # root works in folders of others
    effective = int(next(line for line in status.splitlines() if line.startswith("CapEff")).split()[1], 16)
    assert effective & ~kept == 0


async def on_a_terminal(harness: SandboxHarness, *argv: str) -> str:
    """Run a command on a new terminal and return its output."""
    ours, theirs = pty.openpty()
    confined = harness.sandbox.wrap(argv)
    tree = start_process(confined.argv, cwd=confined.cwd, env=confined.env_changes, tty=os.ttyname(theirs))
    exited = await tree.wait()
    os.close(theirs)
    output = b""
    with suppress(OSError):  # raised when no process has the terminal open any more
        while chunk := os.read(ours, 65536):
            output += chunk
    os.close(ours)
    await tree.end(AT_ONCE)
    assert exited == ProcessExit(0), output
    return output.decode()


async def test_a_command_can_use_its_terminal(harness: SandboxHarness):
    code = (
        "import os, termios, tty\n"
        "assert all(os.isatty(fd) for fd in (0, 1, 2)); assert os.getpgrp() == os.tcgetpgrp(0)\n"
        "os.close(os.open('/dev/tty', os.O_RDWR)); tty.setraw(0); print(os.get_terminal_size(0).lines)\n"
    )
    assert (await on_a_terminal(harness, PYTHON, "-I", "-c", code)).strip() == "0"


async def test_a_command_cannot_insert_terminal_input(harness: SandboxHarness):
    code = PRELUDE + (
        "import fcntl\nTIOCSTI = 0x5412\n"
        "for fd in (0, os.open('/dev/tty', os.O_RDWR)): attempt(fcntl.ioctl, fd, TIOCSTI, b'x')\n"
        "high = (1 << 32) | TIOCSTI\n"
        "def disguised():\n"
        "    ioctl = libc.ioctl(0, ctypes.c_ulong(high), ctypes.byref(ctypes.c_char(b'x')))\n"
        "    if ioctl: raise OSError(ctypes.get_errno(), 'ioctl')\n"
        "attempt(disguised)"
    )
    lines = (await on_a_terminal(harness, PYTHON, "-I", "-S", "-c", code)).splitlines()
    assert len(lines) == 3
    assert refused(lines)


async def test_under_landlock_other_terminals_cannot_be_opened(landlocked: SandboxHarness):
    """All terminals are in one folder, including those of other programs."""
    ours, theirs = pty.openpty()
    lines = landlocked.attempt(
        "attempt(os.open, sys.argv[1], os.O_RDWR); attempt(os.openpty)", os.ttyname(theirs)
    )
    os.close(ours)
    os.close(theirs)
    assert refused(lines)


def test_a_mounted_file_system_has_its_own_terminals(mounted: SandboxHarness):
    ours, theirs = pty.openpty()
    lines = mounted.attempt(
        "attempt(os.open, sys.argv[1], os.O_RDWR); attempt(os.openpty)", os.ttyname(theirs)
    )
    os.close(ours)
    os.close(theirs)
    assert refused(lines[:1])
    assert lines[1].startswith("done:")


def test_commands_cannot_gain_privileges_by_a_program(harness: SandboxHarness):
    """Programs that run as their owner, such as sudo, do not do so inside."""
    assert harness.shell("grep NoNewPrivs /proc/self/status").out.split() == ["NoNewPrivs:", "1"]
