"""Commands on this machine and in client terminals: completed, timed out, cancelled and in the background."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.agent.agent_client import connected_client, make_agent
from tests.coder.tools.harness import ToolHarness, serve_terminal, text_in, until
from tests.workspace.helpers import Lifeline

from accord.agent import Turn
from accord.coder.tools.tool import ToolFailure, ToolOutcome, ToolProgress
from accord.coder.tools.tool_context import ToolLimits
from accord.errors import UsageError
from accord.schema.content import Terminal
from accord.testing import FakeClock

FOR_EVER = "sleep 100000"


@pytest.fixture
async def harness(project: Path) -> AsyncIterator[ToolHarness]:
    harness = ToolHarness(project)
    yield harness
    await harness.context.jobs.aclose()


@pytest.fixture
def lifeline(project: Path) -> Iterator[Lifeline]:
    lifeline = Lifeline(project / "lifeline")
    yield lifeline
    lifeline.close()


async def test_command_output_and_result(harness: ToolHarness, project: Path) -> None:
    call = await harness.prepare(
        "bash", {"command": "echo out; echo err >&2; pwd", "description": "Print things"}
    )
    assert (call.title, call.category) == ("echo out; echo err >&2; pwd", "execute")
    assert call.subject.command == "echo out; echo err >&2; pwd"
    assert call.subject.cwd == str(project)
    outcome = await harness.run(call)
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


async def test_exit_code_and_signal_are_reported_as_failures(harness: ToolHarness) -> None:
    outcome = await harness.use("bash", command="echo no; exit 3")
    assert (outcome.failed, outcome.text, outcome.raw_output["exit_code"]) == (True, "no\n[exit code 3]", 3)
    assert (await harness.use("bash", command="kill -TERM $$")).text == "(no output)\n[ended by SIGTERM]"
    assert (await harness.done("bash", command="true")).text == "(no output)"
    missing = await harness.use("bash", command="no-such-program")
    assert missing.raw_output["exit_code"] == 127


@pytest.mark.parametrize(("line", "why"), [("echo a\0b", "NUL"), ("x" * 200_000, "write it to a file")])
async def test_invalid_command_line_is_refused_before_permission(
    harness: ToolHarness, line: str, why: str
) -> None:
    with pytest.raises(ToolFailure, match=why):
        await harness.prepare("bash", {"command": line})


async def test_timeout_that_is_not_a_number_is_ignored(harness: ToolHarness) -> None:
    assert (await harness.done("bash", command="echo out", timeout=float("nan"))).text == "out"


async def test_cwd_argument(harness: ToolHarness, project: Path) -> None:
    (project / "sub").mkdir()
    assert (await harness.done("bash", command="pwd", cwd="sub")).text == f"{project}/sub"
    assert "must be an existing folder" in await harness.refused("bash", command="pwd", cwd="nowhere")


async def test_environment_comes_from_the_context(project: Path) -> None:
    env = {"PATH": os.environ["PATH"], "MINE": "yes"}
    outcome = await ToolHarness(project, environment=env).done("bash", command="env")
    assert "MINE=yes" in outcome.text
    assert "GIT_TERMINAL_PROMPT=0" in outcome.text
    assert "HOME=" not in outcome.text


async def test_credentials_of_the_agent_do_not_reach_commands(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sesame")
    harness = ToolHarness(project)
    assert "sesame" not in (await harness.done("bash", command="env")).text
    assert "SOME_API_KEY" in harness.context.hidden_variables


async def test_command_has_no_stdin_and_no_terminal(harness: ToolHarness) -> None:
    assert (await harness.done("bash", command="cat; test -t 1 || echo no terminal")).text == "no terminal"


async def test_output_is_reported_while_the_command_runs(harness: ToolHarness, project: Path) -> None:
    os.mkfifo(project / "go")
    shown: asyncio.Queue[str] = asyncio.Queue()
    harness.context = ToolHarness(project, limits=ToolLimits(report_seconds=0)).context

    async def report(progress: ToolProgress) -> None:
        if progress.content is not None:
            shown.put_nowait(text_in(progress.content))

    call = await harness.prepare("bash", {"command": "echo first; cat go; echo last"})
    running = asyncio.ensure_future(call.run(report))
    assert await shown.get() == "```\nfirst\n```"
    (project / "go").write_text("second\n")
    assert (await running).text == "first\nsecond\nlast"


async def test_long_output_keeps_its_start_and_end(project: Path) -> None:
    harness = ToolHarness(project, limits=ToolLimits(output_chars=200))
    outcome = await harness.done("bash", command="seq 1 100000")
    assert outcome.text.startswith("1\n2\n3\n")
    assert outcome.text.endswith("99999\n100000")
    assert "left out here; to see it, send the output to a file" in outcome.text
    assert "send the output to a file" not in text_in(outcome.content)
    assert len(outcome.text) < 500
    assert outcome.raw_output["truncated"] is True


async def test_timeout_kills_the_process_tree(project: Path, lifeline: Lifeline) -> None:
    clock = FakeClock()
    harness = ToolHarness(project, clock=clock)
    line = f"exec 3>lifeline; {FOR_EVER} & echo started; {FOR_EVER}"
    running = asyncio.ensure_future(harness.use("bash", command=line, timeout=60))
    await until(lambda: harness.shown)
    await clock.advance(59)
    assert not running.done()
    await clock.advance(1)
    outcome = await running
    assert outcome.failed
    assert outcome.text == (
        "started\n[stopped after 60 s; give it a longer timeout, or run it in the background]"
    )
    assert "[stopped after 60 s]" in text_in(outcome.content), "the advice is for the model"
    assert outcome.raw_output["timed_out"] is True
    await lifeline.wait_closed()


async def test_cancelling_kills_the_process_tree(harness: ToolHarness, lifeline: Lifeline) -> None:
    running = asyncio.ensure_future(
        harness.use("bash", command=f"exec 3>lifeline; setsid {FOR_EVER} & echo started; {FOR_EVER}")
    )
    await until(lambda: harness.shown)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await lifeline.wait_closed()


async def test_repeated_cancelling_leaves_nothing_running(harness: ToolHarness, lifeline: Lifeline) -> None:
    running = asyncio.ensure_future(harness.use("bash", command=f"exec 3>lifeline; echo started; {FOR_EVER}"))
    await until(lambda: harness.shown)
    while not running.done():
        running.cancel()
        await asyncio.sleep(0)
    assert running.cancelled()
    await lifeline.wait_closed()


async def test_leftover_processes_end_with_the_command(harness: ToolHarness, lifeline: Lifeline) -> None:
    assert (await harness.done("bash", command=f"exec 3>lifeline; {FOR_EVER} & echo done")).text == "done"
    await lifeline.wait_closed()


async def test_the_preview_shows_the_whole_command_and_its_folder(harness: ToolHarness) -> None:
    """Several editors show only the title and the content of a permission request."""
    line = "echo 1\n" + "echo 2 && " * 30 + "true"
    call = await harness.prepare("bash", {"command": line})
    assert len(call.title) <= 200
    assert line in text_in((await call.preview())[:1])
    block, folder = await (await harness.prepare("bash", {"command": "python3 app.py"})).preview()
    assert text_in([block]) == "```sh\n$ python3 app.py\n```"
    assert text_in([folder]) == f"in {harness.context.cwd}"


# -- background jobs -----------------------------------------------------------------------------------------


async def job_output(harness: ToolHarness, job: str) -> str:
    """Return the output of the job once it has printed something."""
    while (text := (await harness.done("job", id=job)).text).startswith("(nothing"):  # noqa: ASYNC110
        await asyncio.sleep(0)
    return text


async def test_background_job_reports_new_output_and_its_end(harness: ToolHarness, project: Path) -> None:
    os.mkfifo(project / "go")
    started = await harness.done("bash", command="echo up; cat go; echo down", background=True)
    assert started.text.startswith("Running in the background as job_1.")
    assert text_in(started.content) == "Running in the background as job_1."
    assert started.raw_output == {"job": "job_1"}
    call = await harness.prepare("job", {"id": "job_1"})
    assert (call.title, call.category) == ("Look at job_1: echo up; cat go; echo down", "read-only")
    assert await job_output(harness, "job_1") == "up\n[job_1 is still running]"
    assert (await harness.run(call)).text == "(nothing printed since the last look)\n[job_1 is still running]"
    (project / "go").write_text("middle\n")
    assert (
        await harness.done("job", id="job_1", wait=60)
    ).text == "middle\ndown\n[job_1 ended with exit code 0]"


async def test_jobs_are_stopped_on_request_and_with_the_session(
    harness: ToolHarness, lifeline: Lifeline, project: Path
) -> None:
    await harness.done("bash", command=FOR_EVER, background=True)
    assert (await harness.done("job", id="job_1", stop=True)).text.endswith("[job_1 was ended by SIGKILL]")
    await harness.done("bash", command=f"exec 3>lifeline; echo on; {FOR_EVER}", background=True)
    await job_output(harness, "job_2")
    await harness.context.jobs.aclose()
    await lifeline.wait_closed()
    with pytest.raises(ToolFailure, match="there is no job 'job_2' in this session; existing jobs: none"):
        await harness.prepare("job", {"id": "job_2"})


async def test_waiting_for_a_job_is_bounded(project: Path) -> None:
    clock = FakeClock()
    harness = ToolHarness(project, clock=clock)
    await harness.done("bash", command=FOR_EVER, background=True)
    waiting = asyncio.ensure_future(harness.done("job", id="job_1", wait=5))
    await until(lambda: clock.waiting)
    await clock.advance(5)
    assert (await waiting).text.endswith("[job_1 is still running]")
    await harness.context.jobs.aclose()


async def test_number_of_jobs_is_limited(harness: ToolHarness) -> None:
    for _ in range(16):
        await harness.done("bash", command=FOR_EVER, background=True)
    assert "stop one first" in await harness.refused("bash", command=FOR_EVER, background=True)


# -- sandbox -------------------------------------------------------------------------------------------------


@dataclass
class Confined:
    argv: list[str]
    env: dict[str, str]
    cwd: str


class MarkingSandbox:
    """A sandbox that only sets a variable."""

    def wrap(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Confined:
        if str(cwd).endswith("closed"):
            raise UsageError("the sandbox does not open this folder")
        marked = {"PATH": os.environ["PATH"], "BOXED": "yes", **(env or {})}
        return Confined(["/usr/bin/env", *argv], marked, str(cwd))


async def test_command_runs_in_the_sandbox_unless_requested_otherwise(project: Path) -> None:
    harness = ToolHarness(project, sandbox=MarkingSandbox())
    call = await harness.prepare("bash", {"command": "echo $BOXED $GIT_PAGER"})
    assert not call.subject.outside_sandbox
    assert (await harness.run(call)).text == "yes cat"
    out = await harness.prepare("bash", {"command": "echo ${BOXED:-no}", "outside_sandbox": True})
    assert out.subject.outside_sandbox
    assert (await harness.run(out)).text == "no"
    without = await ToolHarness(project).prepare("bash", {"command": "true", "outside_sandbox": True})
    assert not without.subject.outside_sandbox


async def test_command_refused_by_the_sandbox_does_not_run(project: Path) -> None:
    (project / "closed").mkdir()
    harness = ToolHarness(project, sandbox=MarkingSandbox())
    assert "does not open this folder" in await harness.refused("bash", command="touch ../here", cwd="closed")
    assert not (project / "here").exists()


# -- client terminals ----------------------------------------------------------------------------------------

TERMINALS = {"terminal": True}


async def test_client_terminal_is_used_and_embedded(project: Path) -> None:
    outcomes: list[ToolOutcome] = []
    shown: list[ToolProgress] = []
    (project / "boom").write_text("printf '\\033[31mboom\\033[0m\\r\\n'; env; exit 2")

    async def answer(turn: Turn) -> None:
        harness = ToolHarness(turn.session.cwd, terminal=turn.terminal, hidden_variables=["CLIENT_TOKEN"])
        outcomes.append(await harness.use("bash", command="sh boom"))
        shown.extend(harness.shown)
        await harness.context.terminals.aclose()

    async with connected_client(make_agent(answer), capabilities=TERMINALS) as client:
        turn = client.prompt(await client.new_session(str(project)))
        params = await serve_terminal(client)
        assert params["command"].endswith("/bash")
        assert params["args"][:2] == ["-c", "sh boom"]
        assert params["cwd"] == str(project)
        assert params["env"] == []
        await client.turn_of(turn)
    (outcome,) = outcomes
    assert shown == [ToolProgress(content=(Terminal("t"),))]
    assert outcome.content == (Terminal("t"),)
    assert outcome.failed
    assert outcome.text.startswith("boom\n")
    assert outcome.text.endswith("[exit code 2]")
    assert outcome.raw_output["exit_code"] == 2
    assert "geheim" not in outcome.text
    assert "\nGIT_TERMINAL_PROMPT=0\n" in outcome.text


async def test_timeout_in_the_client_terminal(project: Path) -> None:
    clock = FakeClock()
    outcomes: list[ToolOutcome] = []

    async def answer(turn: Turn) -> None:
        harness = ToolHarness(turn.session.cwd, terminal=turn.terminal)
        outcomes.append(await harness.use("bash", command=FOR_EVER, timeout=7))

    from accord.agent import AgentOptions

    async with connected_client(
        make_agent(answer), capabilities=TERMINALS, options=AgentOptions(clock=clock)
    ) as client:
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


async def test_cancelling_the_turn_releases_the_client_terminal(project: Path) -> None:
    async def answer(turn: Turn) -> None:
        await ToolHarness(turn.session.cwd, terminal=turn.terminal).use("bash", command=FOR_EVER)

    async with connected_client(make_agent(answer), capabilities=TERMINALS) as client:
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


async def test_client_that_starts_a_cancelled_command_late_is_told_so(project: Path) -> None:
    """The program is still there: some clients end when a program does not exist."""

    async def handle_prompt(turn: Turn) -> None:
        await ToolHarness(turn.session.cwd, terminal=turn.terminal).use("bash", command="touch made")

    async with connected_client(make_agent(handle_prompt), capabilities=TERMINALS) as client:
        session = await client.new_session(str(project))
        turn = client.prompt(session)
        created = await client.asked("terminal/create")
        client.cancel(session)
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"
        late = await asyncio.create_subprocess_exec(
            created["params"]["command"], *created["params"]["args"], stderr=asyncio.subprocess.PIPE
        )
        _, printed = await late.communicate()
        assert (late.returncode, b"the command was withdrawn" in printed) == (125, True)
        assert not (project / "made").exists()


async def test_refused_client_terminal_is_not_bypassed(project: Path) -> None:
    outcomes: list[ToolOutcome] = []

    async def answer(turn: Turn) -> None:
        harness = ToolHarness(turn.session.cwd, terminal=turn.terminal)
        outcomes.append(await harness.use("bash", command="touch here"))

    async with connected_client(make_agent(answer), capabilities=TERMINALS) as client:
        turn = client.prompt(await client.new_session(str(project)))
        client.raw.refuse(await client.asked("terminal/create"), -32602, "not today")
        await client.turn_of(turn)
    assert outcomes[0].text == "bash failed: not today"
    assert not (project / "here").exists()


async def test_refused_client_terminal_is_checked_before_the_next_command(project: Path) -> None:
    """A client that cannot find the launcher gets one more command, which does nothing, and no others."""
    outcomes: list[ToolOutcome] = []

    async def answer(turn: Turn) -> None:
        harness = ToolHarness(turn.session.cwd, terminal=turn.terminal)
        outcomes.extend([await harness.use("bash", command="pwd") for _ in range(3)])
        await harness.context.terminals.aclose()

    async with connected_client(make_agent(answer), capabilities=TERMINALS) as client:
        turn = client.prompt(await client.new_session(str(project)))
        client.raw.refuse(await client.asked("terminal/create"), -32603, "no such program")
        checked = await client.asked("terminal/create")
        assert checked["params"]["args"][:2] == ["-c", ":"]
        client.raw.refuse(checked, -32603, "no such program")
        await client.turn_of(turn)
    assert [outcome.text for outcome in outcomes] == [
        "bash failed: no such program",
        str(project),
        str(project),
    ]


async def test_sandboxed_command_is_wrapped_in_the_client_terminal(project: Path) -> None:
    outcomes: list[ToolOutcome] = []

    async def answer(turn: Turn) -> None:
        harness = ToolHarness(turn.session.cwd, terminal=turn.terminal, sandbox=MarkingSandbox())
        outcomes.append(await harness.use("bash", command="env"))
        await harness.context.terminals.aclose()

    async with connected_client(make_agent(answer), capabilities=TERMINALS) as client:
        turn = client.prompt(await client.new_session(str(project)))
        await serve_terminal(client)
        await client.turn_of(turn)
    assert "BOXED=yes" in outcomes[0].text
    assert "geheim" not in outcomes[0].text
