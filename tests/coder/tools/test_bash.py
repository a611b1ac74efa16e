"""Commands: on this machine and in the client's terminals, to the end, cut short, and in the background."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.agent.scene import agent_that, talk
from tests.coder.tools.scene import Desk, text_in, until
from tests.workspace.helpers import Lifeline

from accord.agent import Turn
from accord.coder.tools.context import Limits
from accord.coder.tools.tool import Progress, ToolFailure, ToolOutcome
from accord.errors import UsageError
from accord.schema.tools import Terminal
from accord.testing import FakeClock

FOR_EVER = "sleep 100000"


@pytest.fixture
async def desk(project: Path) -> AsyncIterator[Desk]:
    desk = Desk(project)
    yield desk
    await desk.context.jobs.aclose()


@pytest.fixture
def lifeline(project: Path) -> Iterator[Lifeline]:
    lifeline = Lifeline(project / "lifeline")
    yield lifeline
    lifeline.close()


async def test_a_command_and_what_it_prints(desk: Desk, project: Path) -> None:
    call = await desk.prepare(
        "bash", {"command": "echo out; echo err >&2; pwd", "description": "Print things"}
    )
    assert (call.title, call.category) == ("echo out; echo err >&2; pwd", "execute")
    assert call.subject.command == "echo out; echo err >&2; pwd"
    assert call.subject.cwd == str(project)
    outcome = await desk.run(call)
    assert not outcome.failed
    assert outcome.text == f"out\nerr\n{project}"
    assert text_in(outcome.content) == f"```\nout\nerr\n{project}\n```"
    assert outcome.raw_output == {
        "output": f"out\nerr\n{project}\n",
        "exit_code": 0,
        "signal": None,
        "timed_out": False,
        "truncated": False,
    }


async def test_an_exit_code_is_said_and_counts_as_failed(desk: Desk) -> None:
    outcome = await desk.use("bash", command="echo no; exit 3")
    assert (outcome.failed, outcome.text, outcome.raw_output["exit_code"]) == (True, "no\n[exit code 3]", 3)
    assert (await desk.use("bash", command="kill -TERM $$")).text == "(no output)\n[ended by SIGTERM]"
    assert (await desk.done("bash", command="true")).text == "(no output)"
    missing = await desk.use("bash", command="no-such-program")
    assert missing.raw_output["exit_code"] == 127


@pytest.mark.parametrize(("line", "why"), [("echo a\0b", "NUL"), ("x" * 200_000, "write it to a file")])
async def test_a_line_that_no_shell_takes_is_refused_before_anybody_is_asked(
    desk: Desk, line: str, why: str
) -> None:
    with pytest.raises(ToolFailure, match=why):
        await desk.prepare("bash", {"command": line})


async def test_a_time_limit_that_is_no_number_is_none(desk: Desk) -> None:
    assert (await desk.done("bash", command="echo out", timeout=float("nan"))).text == "out"


async def test_another_folder(desk: Desk, project: Path) -> None:
    (project / "sub").mkdir()
    assert (await desk.done("bash", command="pwd", cwd="sub")).text == f"{project}/sub"
    assert "must be an existing folder" in await desk.refused("bash", command="pwd", cwd="nowhere")


async def test_the_environment_is_the_one_of_the_context(project: Path) -> None:
    env = {"PATH": os.environ["PATH"], "MINE": "yes"}
    outcome = await Desk(project, environment=env).done("bash", command="env")
    assert "MINE=yes" in outcome.text
    assert "GIT_TERMINAL_PROMPT=0" in outcome.text
    assert "HOME=" not in outcome.text


async def test_credentials_of_the_agent_do_not_reach_commands(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sesame")
    desk = Desk(project)
    assert "sesame" not in (await desk.done("bash", command="env")).text
    assert "SOME_API_KEY" in desk.context.withheld


async def test_nobody_types(desk: Desk) -> None:
    assert (await desk.done("bash", command="cat; test -t 1 || echo no terminal")).text == "no terminal"


async def test_output_is_shown_while_it_runs(desk: Desk, project: Path) -> None:
    os.mkfifo(project / "go")
    shown: asyncio.Queue[str] = asyncio.Queue()
    desk.context = Desk(project, limits=Limits(report_seconds=0)).context

    async def report(progress: Progress) -> None:
        shown.put_nowait(text_in(progress.content))

    call = await desk.prepare("bash", {"command": "echo first; cat go; echo last"})
    running = asyncio.ensure_future(call.run(report))
    assert await shown.get() == "```\nfirst\n```"
    (project / "go").write_text("second\n")
    assert (await running).text == "first\nsecond\nlast"


async def test_long_output_keeps_its_beginning_and_its_end(project: Path) -> None:
    desk = Desk(project, limits=Limits(output_chars=200))
    outcome = await desk.done("bash", command="seq 1 100000")
    assert outcome.text.startswith("1\n2\n3\n")
    assert outcome.text.endswith("99999\n100000")
    assert "left out here; to see it, send the output to a file" in outcome.text
    assert len(outcome.text) < 500
    assert outcome.raw_output["truncated"] is True


async def test_a_command_that_takes_too_long_is_ended_with_all_it_started(
    project: Path, lifeline: Lifeline
) -> None:
    clock = FakeClock()
    desk = Desk(project, clock=clock)
    line = f"exec 3>lifeline; {FOR_EVER} & echo started; {FOR_EVER}"
    running = asyncio.ensure_future(desk.use("bash", command=line, timeout=60))
    await until(lambda: desk.shown)
    await clock.advance(59)
    assert not running.done()
    await clock.advance(1)
    outcome = await running
    assert outcome.failed
    assert outcome.text == (
        "started\n[stopped after 60 s; give it a longer timeout, or run it in the background]"
    )
    assert outcome.raw_output["timed_out"] is True
    await lifeline.wait_closed()


async def test_cancelling_ends_the_whole_tree(desk: Desk, lifeline: Lifeline) -> None:
    running = asyncio.ensure_future(
        desk.use("bash", command=f"exec 3>lifeline; setsid {FOR_EVER} & echo started; {FOR_EVER}")
    )
    await until(lambda: desk.shown)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await lifeline.wait_closed()


async def test_cancelling_again_and_again_leaves_nothing_running(desk: Desk, lifeline: Lifeline) -> None:
    running = asyncio.ensure_future(desk.use("bash", command=f"exec 3>lifeline; echo started; {FOR_EVER}"))
    await until(lambda: desk.shown)
    while not running.done():
        running.cancel()
        await asyncio.sleep(0)
    assert running.cancelled()
    await lifeline.wait_closed()


async def test_what_a_command_leaves_behind_ends_with_it(desk: Desk, lifeline: Lifeline) -> None:
    assert (await desk.done("bash", command=f"exec 3>lifeline; {FOR_EVER} & echo done")).text == "done"
    await lifeline.wait_closed()


async def test_a_long_line_is_shown_whole_in_the_question(desk: Desk) -> None:
    line = "echo 1\n" + "echo 2 && " * 30 + "true"
    call = await desk.prepare("bash", {"command": line})
    assert len(call.title) <= 200
    assert line in text_in(await call.preview())
    assert await (await desk.prepare("bash", {"command": "ls"})).preview() == ()


# -- in the background -----------------------------------------------------------------------------------------------


async def look(desk: Desk, job: str) -> str:
    """What it says, once it has printed something."""
    while (text := (await desk.done("job", id=job)).text).startswith("(nothing"):  # noqa: ASYNC110
        await asyncio.sleep(0)
    return text


async def test_a_job_in_the_background(desk: Desk, project: Path) -> None:
    os.mkfifo(project / "go")
    started = await desk.done("bash", command="echo up; cat go; echo down", background=True)
    assert started.text.startswith("Running in the background as job_1.")
    assert started.raw_output == {"job": "job_1"}
    call = await desk.prepare("job", {"id": "job_1"})
    assert (call.title, call.category) == ("Look at job_1: echo up; cat go; echo down", "read-only")
    assert await look(desk, "job_1") == "up\n[job_1 is still running]"
    assert (await desk.run(call)).text == "(nothing printed since the last look)\n[job_1 is still running]"
    (project / "go").write_text("middle\n")
    assert (
        await desk.done("job", id="job_1", wait=60)
    ).text == "middle\ndown\n[job_1 ended with exit code 0]"


async def test_a_job_is_stopped_and_all_end_with_the_session(
    desk: Desk, lifeline: Lifeline, project: Path
) -> None:
    await desk.done("bash", command=FOR_EVER, background=True)
    assert (await desk.done("job", id="job_1", stop=True)).text.endswith("[job_1 was ended by SIGKILL]")
    await desk.done("bash", command=f"exec 3>lifeline; echo on; {FOR_EVER}", background=True)
    await look(desk, "job_2")
    await desk.context.jobs.aclose()
    await lifeline.wait_closed()
    with pytest.raises(ToolFailure, match="there is no job 'job_2' in this session; there are: none"):
        await desk.prepare("job", {"id": "job_2"})


async def test_waiting_for_a_job_is_bounded(project: Path) -> None:
    clock = FakeClock()
    desk = Desk(project, clock=clock)
    await desk.done("bash", command=FOR_EVER, background=True)
    waiting = asyncio.ensure_future(desk.done("job", id="job_1", wait=5))
    await until(lambda: clock.waiting)
    await clock.advance(5)
    assert (await waiting).text.endswith("[job_1 is still running]")
    await desk.context.jobs.aclose()


async def test_there_are_only_so_many_jobs(desk: Desk) -> None:
    for _ in range(16):
        await desk.done("bash", command=FOR_EVER, background=True)
    assert "stop one first" in await desk.refused("bash", command=FOR_EVER, background=True)


# -- in a sandbox ----------------------------------------------------------------------------------------------------


@dataclass
class Confined:
    argv: list[str]
    env: dict[str, str]
    cwd: str


class Box:
    """Confines nothing, but leaves its mark."""

    def wrap(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Confined:
        if str(cwd).endswith("closed"):
            raise UsageError("the sandbox does not open this folder")
        marked = {"PATH": os.environ["PATH"], "BOXED": "yes", **(env or {})}
        return Confined(["/usr/bin/env", *argv], marked, str(cwd))


async def test_a_command_runs_in_the_sandbox_unless_asked_otherwise(project: Path) -> None:
    desk = Desk(project, sandbox=Box())
    call = await desk.prepare("bash", {"command": "echo $BOXED $GIT_PAGER"})
    assert not call.subject.outside_sandbox
    assert (await desk.run(call)).text == "yes cat"
    out = await desk.prepare("bash", {"command": "echo ${BOXED:-no}", "outside_sandbox": True})
    assert out.subject.outside_sandbox
    assert (await desk.run(out)).text == "no"
    without = await Desk(project).prepare("bash", {"command": "true", "outside_sandbox": True})
    assert not without.subject.outside_sandbox


async def test_what_the_sandbox_refuses_is_not_run(project: Path) -> None:
    (project / "closed").mkdir()
    desk = Desk(project, sandbox=Box())
    assert "does not open this folder" in await desk.refused("bash", command="touch ../here", cwd="closed")
    assert not (project / "here").exists()


# -- in the client's terminal ----------------------------------------------------------------------------------------

TERMINALS = {"terminal": True}


async def test_the_clients_terminal_is_used_and_embedded(project: Path) -> None:
    outcomes: list[ToolOutcome] = []
    shown: list[Progress] = []

    async def answer(turn: Turn) -> None:
        desk = Desk(turn.session.cwd, terminal=turn.terminal, withheld=["OPENAI_API_KEY"])
        outcomes.append(await desk.use("bash", command="make test"))
        shown.extend(desk.shown)

    async with talk(agent_that(answer), capabilities=TERMINALS) as client:
        turn = client.prompt(await client.new_session(str(project)))
        created = await client.asked("terminal/create")
        params = created["params"]
        assert params["command"].endswith("bash")
        assert params["args"] == ["-c", "make test"]
        assert params["cwd"] == str(project)
        env = {entry["name"]: entry["value"] for entry in params["env"]}
        assert env == {
            "OPENAI_API_KEY": "",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "MANPAGER": "cat",
            "GIT_TERMINAL_PROMPT": "0",
        }
        client.raw.reply(created, {"terminalId": "t1"})
        client.raw.reply(await client.asked("terminal/wait_for_exit"), {"exitCode": 2, "signal": None})
        client.raw.reply(
            await client.asked("terminal/output"), {"output": "\x1b[31mboom\x1b[0m\r\n", "truncated": False}
        )
        client.raw.reply(await client.asked("terminal/release"), {})
        await client.turn_of(turn)
    (outcome,) = outcomes
    assert shown == [Progress(content=(Terminal("t1"),))]
    assert outcome.content == (Terminal("t1"),)
    assert outcome.failed
    assert outcome.text == "boom\n[exit code 2]"
    assert outcome.raw_output["exit_code"] == 2


async def test_in_the_clients_terminal_time_runs_out_too(project: Path) -> None:
    clock = FakeClock()
    outcomes: list[ToolOutcome] = []

    async def answer(turn: Turn) -> None:
        desk = Desk(turn.session.cwd, terminal=turn.terminal)
        outcomes.append(await desk.use("bash", command=FOR_EVER, timeout=7))

    from accord.agent import AgentOptions

    async with talk(agent_that(answer), capabilities=TERMINALS, options=AgentOptions(clock=clock)) as client:
        turn = client.prompt(await client.new_session(str(project)))
        client.raw.reply(await client.asked("terminal/create"), {"terminalId": "t1"})
        waiting = await client.asked("terminal/wait_for_exit")
        await clock.advance(7)
        client.raw.reply(await client.asked("terminal/kill"), {})
        client.raw.reply(waiting, {"exitCode": None, "signal": "SIGKILL"})
        client.raw.reply(await client.asked("terminal/output"), {"output": "", "truncated": False})
        client.raw.reply(await client.asked("terminal/release"), {})
        await client.turn_of(turn)
    assert outcomes[0].text.startswith("(no output)\n[stopped after 7 s;")


async def test_cancelling_the_turn_releases_the_clients_terminal(project: Path) -> None:
    async def answer(turn: Turn) -> None:
        await Desk(turn.session.cwd, terminal=turn.terminal).use("bash", command=FOR_EVER)

    async with talk(agent_that(answer), capabilities=TERMINALS) as client:
        session = await client.new_session(str(project))
        turn = client.prompt(session)
        client.raw.reply(await client.asked("terminal/create"), {"terminalId": "t1"})
        await client.asked("terminal/wait_for_exit")
        client.cancel(session)
        released = await client.asked("terminal/release")
        assert released["params"]["terminalId"] == "t1"
        client.raw.reply(released, {})
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"


async def test_a_client_that_refuses_a_terminal_is_not_bypassed(project: Path) -> None:
    outcomes: list[ToolOutcome] = []

    async def answer(turn: Turn) -> None:
        desk = Desk(turn.session.cwd, terminal=turn.terminal)
        outcomes.append(await desk.use("bash", command="touch here"))

    async with talk(agent_that(answer), capabilities=TERMINALS) as client:
        turn = client.prompt(await client.new_session(str(project)))
        client.raw.refuse(await client.asked("terminal/create"), -32602, "not today")
        await client.turn_of(turn)
    assert outcomes[0].text == "bash failed: not today"
    assert not (project / "here").exists()


async def test_a_sandboxed_command_goes_to_the_clients_terminal_confined(project: Path) -> None:
    async def answer(turn: Turn) -> None:
        desk = Desk(turn.session.cwd, terminal=turn.terminal, sandbox=Box())
        await desk.use("bash", command="true")

    async with talk(agent_that(answer), capabilities=TERMINALS) as client:
        turn = client.prompt(await client.new_session(str(project)))
        created: Any = await client.asked("terminal/create")
        assert created["params"]["command"] == "/usr/bin/env"
        assert {"name": "BOXED", "value": "yes"} in created["params"]["env"]
        client.raw.refuse(created, -32602)
        await client.turn_of(turn)
