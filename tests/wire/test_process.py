"""The transport to a child process, with real child processes that misbehave."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from held_pipe import HeldPipe
from loops import LOOPS
from tests.patience import PATIENCE
from transport_contract import Inbox

from accord.errors import NeverStarted
from accord.testing.fake_clock import FakeClock
from accord.wire.process import MAX_TAIL_BYTES, MAX_TAIL_LINES, ProcessTransport, spawn
from accord.wire.process_tree import StopTimeouts
from accord.wire.transport import OversizedFrame, TransportEnd

LOOP_FACTORIES = LOOPS
QUICK = StopTimeouts(leave=0.2, terminate=0.2)

HOLD_PIPE = 'exec 9>"$HELD_PIPE"; echo $$ >&9; '
"""Shell code that holds the named pipe open. Everything started afterwards holds it too."""


async def spawn_python(code: str, **options: object) -> tuple[ProcessTransport, Inbox]:
    """Start a child that runs this Python code; its frames go to the inbox."""
    transport = await spawn([sys.executable, "-SEc", code], name="some-agent", **options)  # type: ignore[arg-type]
    inbox = Inbox()
    transport.start(inbox)
    return transport, inbox


async def spawn_shell(script: str, held_pipe: HeldPipe, **options: object) -> tuple[ProcessTransport, Inbox]:
    """Start a shell that can open the named pipe as $HELD_PIPE."""
    transport = await spawn(["/bin/sh", "-c", script], env={"HELD_PIPE": str(held_pipe.path)}, **options)  # type: ignore[arg-type]
    inbox = Inbox()
    transport.start(inbox)
    return transport, inbox


def is_reaped(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


async def test_the_end_of_a_child_that_exits_at_once_has_its_code_and_stderr():
    transport, inbox = await spawn_python("import sys; print('no key\\ngiven', file=sys.stderr); sys.exit(3)")
    assert await inbox.end() == TransportEnd(
        "some-agent exited with code 3", exit_code=3, stderr="no key\ngiven"
    )
    await transport.aclose()
    assert is_reaped(transport.tree.pid)


async def test_the_end_of_a_killed_child_has_the_signal():
    transport, inbox = await spawn_python("print('{}', flush=True); input()")
    await inbox.count(1)
    os.kill(transport.tree.pid, signal.SIGKILL)
    assert await inbox.end() == TransportEnd("some-agent was ended by SIGKILL", signal="SIGKILL")
    await transport.aclose()


async def test_a_last_frame_without_a_line_end_is_delivered():
    transport, inbox = await spawn_python('import sys; sys.stdout.write(\'{"a":1}\\n{"b":2}\')')
    assert (await inbox.end()).exit_code == 0
    assert inbox.received == [b'{"a":1}', b'{"b":2}']
    await transport.aclose()


async def test_frames_of_a_child_that_exited_before_start_are_delivered():
    transport = await spawn(["/bin/sh", "-c", "echo '{}'; exit 7"])
    await transport.tree.wait()
    inbox = Inbox()
    transport.start(inbox)
    assert await inbox.end() == TransportEnd("sh exited with code 7", exit_code=7)
    assert inbox.received == [b"{}"]
    await transport.aclose()


async def test_megabytes_on_stderr_never_block_the_child():
    lines: list[str] = []
    transport, inbox = await spawn_python(
        "import sys\n"
        "for n in range(100_000): sys.stderr.write(f'{n:05} ' + 'x' * 93 + '\\n')\n"
        "print('done', flush=True); sys.stdin.read()",
        on_stderr=lines.append,
    )
    assert await inbox.count(1) == [b"done"]
    await transport.aclose()
    assert len(lines) == 100_000
    assert lines[-1].startswith("99999 ")
    lines = inbox.ends[0].stderr.split("\n")
    assert len(lines) == MAX_TAIL_LINES
    assert [line[:5] for line in lines] == [f"{n:05}" for n in range(100_000 - MAX_TAIL_LINES, 100_000)]


async def test_the_stderr_tail_is_text_for_any_bytes():
    transport, inbox = await spawn_python(
        f"import os; os.write(2, 'é'.encode() * {MAX_TAIL_BYTES} + b'\\xff\\x00!'); os._exit(1)"
    )
    stderr = (await inbox.end()).stderr
    assert stderr.endswith("éé\N{REPLACEMENT CHARACTER}\0!")
    assert stderr.startswith("é")
    assert len(stderr.encode()) <= MAX_TAIL_BYTES + 2
    await transport.aclose()


async def test_a_line_over_the_limit_is_oversized_and_the_next_one_arrives():
    transport, inbox = await spawn_python("print('x' * 5000); print('{}', flush=True); input()", limit=1000)
    big, small = await inbox.count(2)
    assert isinstance(big, OversizedFrame)
    assert (big.size, small) == (5000, b"{}")
    await transport.aclose()


async def test_drain_returns_when_a_child_that_never_reads_is_terminated():
    transport, inbox = await spawn_python("import signal; print('{}', flush=True); signal.pause()")
    await inbox.count(1)
    for _ in range(100):
        transport.send(b"x" * 10_000)
    drain_task = asyncio.ensure_future(transport.drain())
    await asyncio.wait([drain_task], timeout=0)
    assert not drain_task.done()
    os.kill(transport.tree.pid, signal.SIGTERM)
    async with asyncio.timeout(PATIENCE):
        await drain_task
    assert (await inbox.end()).signal == "SIGTERM"
    assert transport.unsent == 0
    await transport.aclose()


async def test_a_child_that_closes_its_output_is_terminated():
    transport, inbox = await spawn_python(
        "import os, signal; print('{}', flush=True); os.close(1); signal.pause()", timeouts=QUICK
    )
    assert await inbox.end() == TransportEnd("some-agent closed its output")
    assert inbox.received == [b"{}"]
    await transport.aclose()
    assert is_reaped(transport.tree.pid)
    assert len(inbox.ends) == 1


async def test_a_child_that_closes_its_input_is_terminated_on_the_next_send():
    transport, inbox = await spawn_python(
        "import os, signal; os.close(0); print('{}', flush=True); signal.pause()", timeouts=QUICK
    )
    await inbox.count(1)
    transport.send(b"{}")
    assert await inbox.end() == TransportEnd("some-agent closed its input")
    await transport.aclose()


async def test_output_of_an_exited_child_is_kept_while_reading_is_paused():
    transport, inbox = await spawn_python(
        "print('{}', flush=True); input(); print('last'); raise SystemExit(5)"
    )
    await inbox.count(1)
    transport.pause()
    transport.send(b"go")
    await transport.tree.wait()
    assert inbox.received == [b"{}"]
    transport.resume()
    assert (await inbox.end()).exit_code == 5
    assert inbox.received == [b"{}", b"last"]
    await transport.aclose()


@pytest.mark.rule("framing.exits-at-end-of-input")
async def test_closing_lets_a_child_exit_at_the_end_of_its_input():
    transport, inbox = await spawn_python("import sys; sys.stdin.read(); print('bye'); sys.exit(4)")
    await transport.aclose()
    assert inbox.received == [b"bye"]
    assert inbox.ends == [TransportEnd("this side closed the connection to some-agent", exit_code=4)]
    assert is_reaped(transport.tree.pid)


async def test_closing_sends_unsent_frames_first():
    transport, inbox = await spawn_python("import sys; print(len(sys.stdin.read()))")
    transport.send(b"x" * 999_999)
    await transport.aclose()
    assert inbox.received == [b"1000000"]


async def test_closing_terminates_then_kills_a_child_that_does_not_exit():
    clock = FakeClock()
    transport, inbox = await spawn_python(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'not me\\n'))\n"
        "print('up', flush=True); sys.stdin.read(); print('still here', flush=True)\n"
        "while True: signal.pause()",
        clock=clock,
    )
    await inbox.count(1)
    close_task = asyncio.ensure_future(transport.aclose())
    await inbox.count(2)
    await clock.advance(2.0)
    assert await inbox.count(3) == [b"up", b"still here", b"not me"]
    await clock.advance(1.9)
    assert not close_task.done()
    await clock.advance(0.1)
    async with asyncio.timeout(PATIENCE):
        await close_task
    assert inbox.ends[0].signal == "SIGKILL"
    assert is_reaped(transport.tree.pid)


@pytest.mark.rule("framing.exits-at-end-of-input")
async def test_closing_ends_processes_started_by_a_wrapper(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    transport, _ = await spawn_shell(
        HOLD_PIPE + "sh -c 'echo $$ >&9; sleep 1000' & sleep 1000; true", held_pipe, timeouts=QUICK
    )
    await held_pipe.wait_for_holders(2)
    await transport.aclose()
    await held_pipe.wait_for_release()


async def test_closing_ends_grandchildren_that_ignore_sigterm(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    script = HOLD_PIPE + """sh -c 'trap "" TERM; echo $$ >&9; while :; do sleep 1000; done' & read line"""
    transport, _ = await spawn_shell(script, held_pipe, timeouts=QUICK)
    await held_pipe.wait_for_holders(2)
    await transport.aclose()
    await held_pipe.wait_for_release()


async def test_closing_ends_grandchildren_in_their_own_sessions(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    script = HOLD_PIPE + "setsid sh -c 'echo $$ >&9; sleep 1000; true' & read line"
    transport, inbox = await spawn_shell(script, held_pipe, timeouts=QUICK)
    await held_pipe.wait_for_holders(2)
    await transport.aclose()
    await held_pipe.wait_for_release()
    assert inbox.ends[0].signal is None, "the shell exited on its own at the end of its input"


async def test_a_grandchild_that_keeps_the_output_open_does_not_hide_the_childs_exit(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    transport, inbox = await spawn_shell(
        HOLD_PIPE + "sleep 1000 & echo '{}'; exit 9", held_pipe, timeouts=QUICK
    )
    assert await inbox.end() == TransportEnd("sh exited with code 9", exit_code=9)
    assert inbox.received == [b"{}"]
    await transport.aclose()
    await held_pipe.wait_for_holders(1)
    await held_pipe.wait_for_release()


async def test_a_cancelled_close_continues(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    transport, inbox = await spawn_shell(HOLD_PIPE + "sleep 1000; true", held_pipe, timeouts=QUICK)
    await held_pipe.wait_for_holders(1)
    close_task = asyncio.ensure_future(transport.aclose())
    await asyncio.wait([close_task], timeout=0)
    close_task.cancel()
    await held_pipe.wait_for_release()
    await transport.aclose()
    assert len(inbox.ends) == 1


async def test_cancelling_all_tasks_kills_a_child_that_is_closing(tmp_path: Path):
    held_pipe = HeldPipe(tmp_path)
    transport, inbox = await spawn_shell(
        HOLD_PIPE + "trap '' TERM; sleep 1000; true", held_pipe, timeouts=StopTimeouts(leave=1000)
    )
    await held_pipe.wait_for_holders(1)
    close_task = asyncio.ensure_future(transport.aclose())
    await asyncio.wait([close_task], timeout=0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await held_pipe.wait_for_release()
    await asyncio.wait([close_task])
    assert len(inbox.ends) == 1
    await transport.tree.end(QUICK)


async def test_a_program_is_found_by_the_childs_path_and_folder(tmp_path: Path):
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\necho $ME $(pwd); test -z ${GONE+x}\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ME": "ok", "GONE": None}
    for command, cwd in (("agent", "/"), ("./agent", str(tmp_path)), (str(program), "/")):
        os.environ["GONE"] = "1"
        transport = await spawn([command], cwd=cwd, env=env)
        inbox = Inbox()
        transport.start(inbox)
        assert (await inbox.end()).exit_code == 0
        assert inbox.received == [f"ok {cwd}".encode()]
        await transport.aclose()
        del os.environ["GONE"]


async def test_a_program_that_cannot_be_started_raises_a_one_line_reason(tmp_path: Path):
    plain, script = tmp_path / "plain", tmp_path / "script"
    plain.write_text("not a program")
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    for command, cwd, message in (
        (
            "no-such-agent",
            None,
            "cannot start no-such-agent: it is not on PATH; install it or give its full path",
        ),
        ("./agent", "/usr", "cannot start ./agent: /usr/./agent does not exist; check the path"),
        (str(tmp_path), None, f"cannot start {tmp_path}: it is a folder; name the program inside it"),
        (
            str(plain),
            None,
            f"cannot start {plain}: it is not executable; run chmod +x on it, "
            "or start it with its interpreter",
        ),
        (
            str(script),
            None,
            f"cannot start {script}: the interpreter in line 1 of {script} does not exist; install it",
        ),
        (
            "sh",
            "/no/dir",
            "cannot start sh: its folder /no/dir does not exist; create it or name another one",
        ),
        ("", None, "there is no command to start; give the program and its arguments"),
    ):
        with pytest.raises(NeverStarted) as caught:
            await spawn([command], cwd=cwd)
        assert str(caught.value) == message
    plain.chmod(0o755)
    with pytest.raises(NeverStarted, match=r"Exec format error"):
        await spawn([str(plain)])
    with pytest.raises(NeverStarted, match=r"null byte"):
        await spawn(["sh", "a\0b"])


async def test_a_child_gets_default_signals_and_no_inherited_descriptors():
    readable, writable = os.pipe()
    os.set_inheritable(writable, True)
    old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        transport = await spawn(
            ["/bin/sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/$$/fd; true"]
        )
        inbox = Inbox()
        transport.start(inbox)
        await inbox.end()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == {*old, signal.SIGUSR1}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
        os.close(readable)
        os.close(writable)
    blocked, ignored, *fds = (frame.decode() for frame in inbox.received if isinstance(frame, bytes))
    assert int(blocked.split()[1], 16) == 0
    assert not int(ignored.split()[1], 16) & (1 << (signal.SIGPIPE - 1))
    assert fds == ["0", "1", "2"]
    await transport.aclose()
