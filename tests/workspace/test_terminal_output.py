"""Terminal output: limits, encoding, environment, and how the command line is started."""

import os
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.workspace.helpers import Screen, Write

from accord.errors import InvalidParams
from accord.workspace.roots import Roots
from accord.workspace.terminal_command import TerminalCommand
from accord.workspace.terminals import (
    DEFAULT_OUTPUT_BYTES,
    MAX_OUTPUT_BYTES,
    ExitStatus,
    PtySize,
    TerminalOutput,
    Terminals,
)

Run = Callable[[TerminalCommand], Awaitable[TerminalOutput]]


def runner_for(terminals: Terminals) -> Run:
    async def run(command: TerminalCommand) -> TerminalOutput:
        id = await terminals.create(command)
        await terminals.wait(id)
        return await terminals.release(id)

    return run


@pytest.fixture(params=[PtySize(), None], ids=["pty", "pipe"])
async def run(request: pytest.FixtureRequest, roots: Roots) -> AsyncIterator[Run]:
    terminals = Terminals(roots, pty=request.param)
    yield runner_for(terminals)
    await terminals.aclose()


@pytest.mark.rule("terminal.output-limit")
@pytest.mark.parametrize("limit", range(14))
async def test_output_over_the_limit_loses_its_start_at_a_character(
    run: Run, write: Write, limit: int
) -> None:
    text = "é€😀é€"
    path = write("text", text)
    output = await run(TerminalCommand("cat", args=[str(path)], output_byte_limit=limit))
    kept = output.output.encode()
    assert text.encode().endswith(kept)
    assert limit - 3 <= len(kept) <= limit
    assert output.truncated


@pytest.mark.rule("terminal.output-limit")
async def test_output_within_the_limit_is_complete(run: Run) -> None:
    output = await run(TerminalCommand("printf", args=["12345"], output_byte_limit=5))
    assert output == TerminalOutput("12345", False, ExitStatus(exit_code=0))


@pytest.mark.rule("terminal.output-limit")
async def test_large_output_does_not_use_more_memory(run: Run) -> None:
    tracemalloc.start()
    try:
        output = await run(
            TerminalCommand(
                "head -c 100000000 /dev/zero | tr '\\0' x; echo 'that was it'", output_byte_limit=2000
            )
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert output.output == "x" * 1988 + "that was it\n"
    assert output.truncated
    assert peak < 4_000_000


@pytest.mark.parametrize(("limit", "kept"), [(None, DEFAULT_OUTPUT_BYTES), (10**18, MAX_OUTPUT_BYTES)])
async def test_output_is_limited_whatever_limit_the_agent_requests(
    roots: Roots, limit: int | None, kept: int
) -> None:
    run = runner_for(Terminals(roots, pty=None))
    output = await run(TerminalCommand("head -c 20000000 /dev/zero | tr '\\0' x", output_byte_limit=limit))
    assert len(output.output) == kept
    assert output.truncated


async def test_invalid_utf8_is_replaced_within_the_limit(run: Run, write: Write) -> None:
    path = write("bytes", b"ok \xff\xfe \xe2\x82 " * 20)
    output = await run(TerminalCommand("cat", args=[str(path)], output_byte_limit=50))
    assert len(output.output.encode()) <= 50
    assert output.output.endswith("ok \ufffd\ufffd \ufffd ")


@pytest.mark.parametrize("pty", [PtySize(), None], ids=["pty", "pipe"])
async def test_a_character_written_in_two_parts_is_decoded(
    roots: Roots, project: Path, pty: PtySize | None
) -> None:
    os.mkfifo(project / "go")
    screen = Screen()
    terminals = Terminals(roots, pty=pty, on_output=screen)
    id = await terminals.create(
        TerminalCommand(r"printf 'so far \360\237'; cat go; printf '\230\200 so good'")
    )
    await screen.wait_for(id, "so far ")
    assert terminals.output(id).output == "so far "
    await runner_for(terminals)(TerminalCommand("printf '' > go"))
    await terminals.wait(id)
    assert terminals.output(id).output == screen.seen[id] == "so far 😀 so good"
    await terminals.aclose()


async def test_a_command_on_a_pty_sees_a_terminal_of_the_given_size(roots: Roots) -> None:
    run = runner_for(
        Terminals(roots, pty=PtySize(columns=100, rows=30), base_env={"PATH": os.environ["PATH"]})
    )
    output = await run(
        TerminalCommand("[ -t 1 ] && [ -t 2 ] && [ ! -t 0 ] && stty size <&1; echo $TERM $PAGER $GIT_PAGER")
    )
    assert output.output == "30 100\nxterm-256color cat cat\n"


async def test_a_command_on_a_pipe_sees_no_terminal(roots: Roots) -> None:
    run = runner_for(Terminals(roots, pty=None))
    assert (await run(TerminalCommand("[ -t 1 ] || echo $TERM"))).output == "dumb\n"


async def test_the_request_environment_overrides_the_base_environment(run: Run, roots: Roots) -> None:
    os.environ["ACCORD_TEST_SECRET"] = "hidden"
    try:
        given = runner_for(Terminals(roots, base_env={"PATH": os.environ["PATH"], "MINE": "1", "ALSO": "2"}))
        output = await given(TerminalCommand("env", env={"MINE": "3", "TERM": "vt100", "PAGER": ""}))
        ours = await run(TerminalCommand("env"))
    finally:
        del os.environ["ACCORD_TEST_SECRET"]
    lines = set(output.output.splitlines())
    assert {"MINE=3", "ALSO=2", "TERM=vt100", "PAGER=", f"PWD={roots.cwd}"} <= lines
    assert "ACCORD_TEST_SECRET" not in output.output
    assert "ACCORD_TEST_SECRET=hidden" in ours.output


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo one && echo two | tr o 0", "one\ntw0\n"),
        ("FIRST=1; echo $FIRST", "1\n"),
        ("cd / ; pwd", "/\n"),
        ("echo 'a  b' \"c\"", "a  b c\n"),
        ("exit 3", ""),
        ("pwd", "{project}\n"),
        ("./run.sh", "ran\n"),
        ("my prog/run it", "ran\n"),
        ("{project}/run.sh", "ran\n"),
        ("'{project}/my prog/run it' | cat", "ran\n"),
    ],
)
async def test_a_shell_line_can_be_the_command(
    run: Run, write: Write, project: Path, line: str, expected: str
) -> None:
    for name in ("run.sh", "my prog/run it"):
        write(name, "#!/bin/sh\necho ran\n").chmod(0o755)
    output = await run(TerminalCommand(line.format(project=project)))
    assert output.output == expected.format(project=project)


async def test_a_shell_that_is_not_posix_is_not_used(roots: Roots, write: Write) -> None:
    fish = write("fish", "#!/bin/sh\necho I am a fish\n")
    fish.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "SHELL": str(fish)}
    assert (
        await runner_for(Terminals(roots, base_env=env))(TerminalCommand("echo hi; true"))
    ).output == "hi\n"
    bash = fish.rename(fish.with_name("bash"))
    env["SHELL"] = str(bash)
    assert (
        await runner_for(Terminals(roots, base_env=env))(TerminalCommand("echo hi; true"))
    ).output == "I am a fish\n"


@pytest.mark.parametrize(
    "command",
    [
        TerminalCommand("no-such-program"),
        TerminalCommand("no-such-program", args=["x"]),
        TerminalCommand("/no/such/program"),
        TerminalCommand("./text.txt"),
        TerminalCommand("npm run", args=["test"]),
        TerminalCommand("sub"),
        TerminalCommand("./sub"),
    ],
    ids=lambda command: command.command,
)
async def test_a_command_that_cannot_run_is_refused_with_its_name(
    roots: Roots, write: Write, command: TerminalCommand
) -> None:
    write("text.txt", "not a program")
    write("sub/x", "")
    with pytest.raises(InvalidParams) as refused:
        await Terminals(roots).create(command)
    assert command.command in refused.value.message
    assert "\n" not in refused.value.message


async def test_an_unknown_command_in_a_shell_line_exits_with_127(run: Run) -> None:
    output = await run(TerminalCommand("no-such-program --flag"))
    assert "no-such-program" in output.output
    assert output.exit_status == ExitStatus(exit_code=127)
