"""The transport to a child process, with real children that behave badly."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from lifeline import Lifeline
from loops import LOOPS
from transport_contract import Inbox

from accord.errors import NeverStarted
from accord.testing.clock import FakeClock
from accord.wire.children import Patience
from accord.wire.lastwords import KEPT_BYTES, KEPT_LINES
from accord.wire.process import ProcessTransport, spawn
from accord.wire.transport import End, Oversized

LOOP_FACTORIES = LOOPS
QUICK = Patience(leave=0.2, terminate=0.2)

HOLD = 'exec 9>"$LIFELINE"; echo $$ >&9; '
"""Shell: hold on to the lifeline, and so does everyone started from here."""


async def python(code: str, **options: object) -> tuple[ProcessTransport, Inbox]:
    """A child that runs this code, its frames going to an inbox."""
    transport = await spawn([sys.executable, "-SEc", code], name="some-agent", **options)  # type: ignore[arg-type]
    inbox = Inbox()
    transport.start(inbox)
    return transport, inbox


async def shell(script: str, lifeline: Lifeline, **options: object) -> tuple[ProcessTransport, Inbox]:
    """A child that is a shell, with the lifeline at hand."""
    transport = await spawn(["/bin/sh", "-c", script], env={"LIFELINE": str(lifeline.path)}, **options)  # type: ignore[arg-type]
    inbox = Inbox()
    transport.start(inbox)
    return transport, inbox


def is_reaped(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


async def test_a_child_that_exits_at_once_says_its_code_and_its_last_words():
    transport, inbox = await python("import sys; print('no key\\ngiven', file=sys.stderr); sys.exit(3)")
    assert await inbox.end() == End("some-agent exited with code 3", exit_code=3, stderr="no key\ngiven")
    await transport.aclose()
    assert is_reaped(transport.tree.pid)


async def test_a_child_that_is_killed_says_the_signal():
    transport, inbox = await python("print('{}', flush=True); input()")
    await inbox.count(1)
    os.kill(transport.tree.pid, signal.SIGKILL)
    assert await inbox.end() == End("some-agent was ended by SIGKILL", signal="SIGKILL")
    await transport.aclose()


async def test_a_last_frame_without_a_line_end_still_counts():
    transport, inbox = await python('import sys; sys.stdout.write(\'{"a":1}\\n{"b":2}\')')
    assert (await inbox.end()).exit_code == 0
    assert inbox.received == [b'{"a":1}', b'{"b":2}']
    await transport.aclose()


async def test_a_child_that_died_before_the_start_is_still_heard():
    transport = await spawn(["/bin/sh", "-c", "echo '{}'; exit 7"])
    await transport.tree.wait()
    inbox = Inbox()
    transport.start(inbox)
    assert await inbox.end() == End("sh exited with code 7", exit_code=7)
    assert inbox.received == [b"{}"]
    await transport.aclose()


async def test_megabytes_on_stderr_never_block_the_child():
    lines: list[str] = []
    transport, inbox = await python(
        "import sys\n"
        "for n in range(100_000): sys.stderr.write(f'{n:05} ' + 'x' * 93 + '\\n')\n"
        "print('done', flush=True); sys.stdin.read()",
        on_stderr=lines.append,
    )
    assert await inbox.count(1) == [b"done"]
    await transport.aclose()
    assert len(lines) == 100_000
    assert lines[-1].startswith("99999 ")
    kept = inbox.ends[0].stderr.split("\n")
    assert len(kept) == KEPT_LINES
    assert [line[:5] for line in kept] == [f"{n:05}" for n in range(100_000 - KEPT_LINES, 100_000)]


async def test_last_words_are_text_whatever_the_bytes():
    transport, inbox = await python(
        f"import os; os.write(2, 'é'.encode() * {KEPT_BYTES} + b'\\xff\\x00!'); os._exit(1)"
    )
    stderr = (await inbox.end()).stderr
    assert stderr.endswith("éé\N{REPLACEMENT CHARACTER}\0!")
    assert stderr.startswith("é")
    assert len(stderr.encode()) <= KEPT_BYTES + 2
    await transport.aclose()


async def test_a_line_over_the_limit_is_refused_and_the_next_arrives():
    transport, inbox = await python("print('x' * 5000); print('{}', flush=True); input()", limit=1000)
    big, small = await inbox.count(2)
    assert isinstance(big, Oversized)
    assert (big.size, small) == (5000, b"{}")
    await transport.aclose()


async def test_a_child_that_never_reads_and_then_dies_resolves_drain():
    transport, inbox = await python("import signal; print('{}', flush=True); signal.pause()")
    await inbox.count(1)
    for _ in range(100):
        transport.send(b"x" * 10_000)
    draining = asyncio.ensure_future(transport.drain())
    await asyncio.wait([draining], timeout=0)
    assert not draining.done()
    os.kill(transport.tree.pid, signal.SIGTERM)
    async with asyncio.timeout(30):
        await draining
    assert (await inbox.end()).signal == "SIGTERM"
    assert transport.unsent == 0
    await transport.aclose()


async def test_a_child_that_closes_its_output_but_lives_is_ended():
    transport, inbox = await python(
        "import os, signal; print('{}', flush=True); os.close(1); signal.pause()", patience=QUICK
    )
    assert await inbox.end() == End("some-agent closed its output")
    assert inbox.received == [b"{}"]
    await transport.aclose()
    assert is_reaped(transport.tree.pid)
    assert len(inbox.ends) == 1


async def test_a_child_that_closes_its_input_but_lives_is_ended_by_the_next_send():
    transport, inbox = await python(
        "import os, signal; os.close(0); print('{}', flush=True); signal.pause()", patience=QUICK
    )
    await inbox.count(1)
    transport.send(b"{}")
    assert await inbox.end() == End("some-agent closed its input")
    await transport.aclose()


async def test_what_a_dead_child_wrote_waits_for_a_paused_reader():
    transport, inbox = await python("print('{}', flush=True); input(); print('last'); raise SystemExit(5)")
    await inbox.count(1)
    transport.pause()
    transport.send(b"go")
    await transport.tree.wait()
    assert inbox.received == [b"{}"]
    transport.resume()
    assert (await inbox.end()).exit_code == 5
    assert inbox.received == [b"{}", b"last"]
    await transport.aclose()


@pytest.mark.rule(36)
async def test_closing_lets_a_child_leave_by_itself_at_the_end_of_its_input():
    transport, inbox = await python("import sys; sys.stdin.read(); print('bye'); sys.exit(4)")
    await transport.aclose()
    assert inbox.received == [b"bye"]
    assert inbox.ends == [End("this side closed the connection to some-agent", exit_code=4)]
    assert is_reaped(transport.tree.pid)


async def test_closing_sends_what_was_still_unsent():
    transport, inbox = await python("import sys; print(len(sys.stdin.read()))")
    transport.send(b"x" * 999_999)
    await transport.aclose()
    assert inbox.received == [b"1000000"]


async def test_closing_terminates_then_kills_a_child_that_stays_each_in_its_time():
    clock = FakeClock()
    transport, inbox = await python(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'not me\\n'))\n"
        "print('up', flush=True); sys.stdin.read(); print('still here', flush=True)\n"
        "while True: signal.pause()",
        clock=clock,
    )
    await inbox.count(1)
    closing = asyncio.ensure_future(transport.aclose())
    await inbox.count(2)
    await clock.advance(2.0)
    assert await inbox.count(3) == [b"up", b"still here", b"not me"]
    await clock.advance(1.9)
    assert not closing.done()
    await clock.advance(0.1)
    async with asyncio.timeout(30):
        await closing
    assert inbox.ends[0].signal == "SIGKILL"
    assert is_reaped(transport.tree.pid)


@pytest.mark.rule(36)
async def test_closing_ends_what_a_wrapper_started(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    transport, _ = await shell(
        HOLD + "sh -c 'echo $$ >&9; sleep 1000' & sleep 1000; true", lifeline, patience=QUICK
    )
    await lifeline.holders(2)
    await transport.aclose()
    await lifeline.gone()


async def test_closing_ends_grandchildren_that_ignore_sigterm(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    script = HOLD + """sh -c 'trap "" TERM; echo $$ >&9; while :; do sleep 1000; done' & read line"""
    transport, _ = await shell(script, lifeline, patience=QUICK)
    await lifeline.holders(2)
    await transport.aclose()
    await lifeline.gone()


async def test_closing_ends_grandchildren_in_sessions_of_their_own(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    script = HOLD + "setsid sh -c 'echo $$ >&9; sleep 1000; true' & read line"
    transport, inbox = await shell(script, lifeline, patience=QUICK)
    await lifeline.holders(2)
    await transport.aclose()
    await lifeline.gone()
    assert inbox.ends[0].signal is None, "the shell itself left by itself, at the end of its input"


async def test_a_grandchild_that_keeps_the_output_open_does_not_hide_the_childs_death(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    transport, inbox = await shell(HOLD + "sleep 1000 & echo '{}'; exit 9", lifeline, patience=QUICK)
    assert await inbox.end() == End("sh exited with code 9", exit_code=9)
    assert inbox.received == [b"{}"]
    await transport.aclose()
    await lifeline.holders(1)
    await lifeline.gone()


async def test_a_cancelled_close_goes_on(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    transport, inbox = await shell(HOLD + "sleep 1000; true", lifeline, patience=QUICK)
    await lifeline.holders(1)
    closing = asyncio.ensure_future(transport.aclose())
    await asyncio.wait([closing], timeout=0)
    closing.cancel()
    await lifeline.gone()
    await transport.aclose()
    assert len(inbox.ends) == 1


async def test_a_loop_that_shuts_down_kills_what_is_still_closing(tmp_path: Path):
    lifeline = Lifeline(tmp_path)
    transport, inbox = await shell(
        HOLD + "trap '' TERM; sleep 1000; true", lifeline, patience=Patience(leave=1000)
    )
    await lifeline.holders(1)
    closing = asyncio.ensure_future(transport.aclose())
    await asyncio.wait([closing], timeout=0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await lifeline.gone()
    await asyncio.wait([closing])
    assert len(inbox.ends) == 1
    await transport.tree.end(QUICK)


async def test_a_program_is_found_as_the_child_would_find_it(tmp_path: Path):
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


async def test_a_program_that_cannot_be_started_says_why_in_one_line(tmp_path: Path):
    plain, script = tmp_path / "plain", tmp_path / "script"
    plain.write_text("not a program")
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    for command, cwd, message in (
        (
            "no-such-agent",
            None,
            "no-such-agent was not started: it is not on PATH; install it, or give its full path",
        ),
        ("./agent", "/usr", "./agent was not started: there is no such file as /usr/./agent; check the path"),
        (str(tmp_path), None, f"{tmp_path} was not started: it is a folder; name the program inside it"),
        (
            str(plain),
            None,
            f"{plain} was not started: it is not executable; chmod +x it, or start it by its interpreter",
        ),
        (
            str(script),
            None,
            f"{script} was not started: the interpreter named in the first line of {script} does not exist; install it",
        ),
        ("sh", "/no/dir", "sh was not started: its folder /no/dir does not exist; create it or name another"),
        ("", None, "no command to start: give the program and its arguments"),
    ):
        with pytest.raises(NeverStarted) as caught:
            await spawn([command], cwd=cwd)
        assert str(caught.value) == message
    plain.chmod(0o755)
    with pytest.raises(NeverStarted, match=r"Exec format error"):
        await spawn([str(plain)])
    with pytest.raises(NeverStarted, match=r"null byte"):
        await spawn(["sh", "a\0b"])


async def test_a_child_gets_default_signals_and_no_descriptors_of_ours():
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
