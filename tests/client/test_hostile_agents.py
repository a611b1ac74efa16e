"""Hostile agents as processes against the client library: every turn ends and nothing is left behind."""

import json
from typing import Any

import pytest
from tests.client.hostile_agent import hostile_agent
from tests.client.raw_agent import EventCollector, kinds

from accord.client import (
    AgentRestarted,
    ClientHandlers,
    ClientOptions,
    RestartPolicy,
    TimeLimits,
    allow_all,
    allow_reads,
)
from accord.errors import (
    AccordError,
    AuthRequired,
    BadAnswer,
    ConnectionClosed,
    Crashed,
    HandshakeFailed,
    Killed,
    RequestTimeout,
    RpcError,
    TurnSilent,
)
from accord.schema import AgentMessageChunk, SessionInfoUpdate
from accord.schema.codec import encode
from accord.schema.dialects import DIALECTS
from accord.session import TurnEnded, text_of
from accord.testing.hostile import behaviors, summary
from accord.testing.hostile.bad_output import FLOOD_CHUNKS, NOISE
from accord.testing.hostile.dialect_agents import DIALECT_ROWS, UPDATE_ROWS
from accord.testing.hostile.hostile_agent import STDERR_MESSAGE
from accord.workspace.terminals import MAX_RUNNING

SHORT = TimeLimits(request=0.2, startup=60, silence=0.2, cancel=0.2)


def test_every_hostile_agent_has_a_unique_name_and_a_summary():
    assert len(behaviors()) == sum(1 for kind in behaviors().values() if summary(kind).endswith("."))
    assert all(name == kind.name for name, kind in behaviors().items())


# -- exits --


@pytest.mark.rule("framing.agent-dies")
@pytest.mark.parametrize("name", ["dies-at-start", "dies-in-initialize"])
async def test_an_exit_before_the_handshake_raises_handshake_failed(name, tmp_path):
    with pytest.raises(HandshakeFailed, match=STDERR_MESSAGE) as caught:
        async with hostile_agent(name, tmp_path):
            pass
    assert caught.value.exit_code == 7


@pytest.mark.rule("framing.agent-dies")
@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("dies-opening", Crashed, STDERR_MESSAGE),
        ("dies-in-turn", Crashed, STDERR_MESSAGE),
        ("dies-unheard", Crashed, STDERR_MESSAGE),
        ("dies-asking", Crashed, STDERR_MESSAGE),
        ("killed-in-turn", Killed, "SIGKILL"),
        ("hangs-up", ConnectionClosed, "closed its output"),
    ],
)
async def test_an_exit_during_work_raises(name, error, text, tmp_path):
    with pytest.raises(error, match=text):
        await run_turn(name, tmp_path)


async def test_an_exit_after_the_response_keeps_the_answer(tmp_path):
    async with hostile_agent("dies-after-answer", tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        answer = await session.ask("go")
        assert (answer.text, answer.stop_reason) == ("Done, and gone.", "end_turn")


@pytest.mark.parametrize("name", ["ignores-the-end", "leaves-children"])
async def test_an_agent_that_does_not_exit_is_ended_with_its_children(name, tmp_path):
    async with hostile_agent(name, tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        await session.ask("go")


async def test_a_turn_succeeds_after_a_restart(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    options = ClientOptions(restart=RestartPolicy(max_restarts=1, pause=0))
    words = ("--once", str(tmp_path / "done"))
    async with hostile_agent("dies-in-turn", project, *words, options=options) as agent:
        session = await agent.new_session(project)
        watching = EventCollector(session.events())
        with pytest.raises(Crashed):
            await session.ask("go")
        await watching.until(AgentRestarted)
        assert (await session.ask("again")).text == "All is well."
        await watching.cancel()


# -- silence --


async def test_silence_before_initialize_times_out(tmp_path):
    options = ClientOptions(limits=TimeLimits(startup=0.2))
    with pytest.raises(RequestTimeout, match=r"initialize was not answered within 0\.2 s"):
        async with hostile_agent("silent-at-start", tmp_path, options=options):
            pass


async def test_silence_in_session_new_times_out(tmp_path):
    async with hostile_agent("silent-opening", tmp_path, options=ClientOptions(limits=SHORT)) as agent:
        with pytest.raises(RequestTimeout, match="session/new"):
            await agent.new_session(tmp_path)


@pytest.mark.rule("prompt.patient")
@pytest.mark.parametrize("name", ["silent-in-turn", "silent-after-cancel"])
async def test_silence_in_a_turn_raises_turn_silent(name, tmp_path):
    limits = TimeLimits(silence=0.2, cancel=0.2)
    async with hostile_agent(name, tmp_path, options=ClientOptions(limits=limits)) as agent:
        session = await agent.new_session(tmp_path)
        turn = EventCollector(session.prompt("go"))
        with pytest.raises(TurnSilent):
            await turn.end()
        assert isinstance(turn.events[-1], TurnEnded)


async def test_a_cancelled_turn_has_the_stop_reason_of_the_agent(tmp_path):
    for name, reason in (("waits-for-cancel", "cancelled"), ("ends-after-cancel", "end_turn")):
        async with hostile_agent(name, tmp_path) as agent:
            session = await agent.new_session(tmp_path)
            turn = EventCollector(session.prompt("go"))
            await turn.until(AgentMessageChunk)
            session.cancel()
            assert (await turn.end())[-1].stop_reason == reason


# -- floods --


async def test_a_flood_arrives_complete_and_in_order(tmp_path):
    async with hostile_agent("floods", tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        numbers = [int(line.split()[0]) for line in (await session.ask("go")).text.splitlines()]
        assert numbers == list(range(FLOOD_CHUNKS))


async def test_an_endless_flood_can_be_cancelled(tmp_path):
    limits = TimeLimits(cancel=0.2)
    async with hostile_agent("floods-forever", tmp_path, options=ClientOptions(limits=limits)) as agent:
        session = await agent.new_session(tmp_path)
        async for event in session.prompt("go"):
            if isinstance(event, AgentMessageChunk):
                break


@pytest.mark.parametrize(
    ("name", "text", "expected_reports"),
    [
        ("floods-stderr", "Did you read all that?", set()),
        ("huge-message", "Here it comes. There it was.", {"oversized"}),
        ("deep-message", "Still there?", {"noise", "invalid"}),
    ],
)
async def test_oversized_and_excessive_output_does_not_end_the_turn(name, text, expected_reports, tmp_path):
    reports: list[str] = []
    options = ClientOptions(observer=lambda report: reports.append(report.kind))
    async with hostile_agent(name, tmp_path, options=options) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("go")).text == text
    assert set(reports) <= expected_reports
    assert bool(reports) == bool(expected_reports)


# -- noise and invalid responses --


@pytest.mark.rule("framing.client-survives-invalid-json")
async def test_noise_is_skipped_and_reported(tmp_path):
    reports: list[Any] = []
    async with hostile_agent("noise", tmp_path, options=ClientOptions(observer=reports.append)) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("go")).text == "One, two."
    frames = b"\n".join(report.frame for report in reports)
    for line in NOISE[:2]:
        assert line in frames


@pytest.mark.rule("framing.client-unknown-notification", "extension.unknown-update")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("answers-twice", "Once and for all."),
        ("answers-unasked", "That was not for you."),
        (
            "unknown-updates",
            "Before, hostile/ask: -32601\n_hostile/ask: -32601\n$/ask: -32601\nafter.",
        ),
    ],
)
async def test_unexpected_messages_do_not_affect_the_turn(name, text, tmp_path):
    async with hostile_agent(name, tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        answer = await session.ask("go")
        assert (answer.text, answer.stop_reason) == (text, "end_turn")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("wrong-shapes", BadAnswer),
        ("no-session", BadAnswer),
        ("string-error", RpcError),
        ("fails-turn", RpcError),
        ("both-answers", AccordError),
        ("refuses-initialize", HandshakeFailed),
        ("wrong-version", HandshakeFailed),
        ("wants-login", AuthRequired),
    ],
)
async def test_invalid_responses_raise(name, error, tmp_path):
    with pytest.raises(error):
        await run_turn(name, tmp_path)


@pytest.mark.rule("prompt.refusal-shown", "prompt.unknown-stop-reason")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("refuses", "refusal"),
        ("runs-out", "max_tokens"),
        ("unknown-stop", None),
        ("dialect-stops", "cancelled"),
    ],
)
async def test_unsuccessful_stop_reasons_are_reported(name, reason, tmp_path):
    async with hostile_agent(name, tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("go")).stop_reason == reason


async def test_an_endless_session_list_raises(tmp_path):
    async with hostile_agent("endless-list", tmp_path) as agent:
        with pytest.raises(BadAnswer, match="the list would never end"):
            _ = [info async for info in agent.list_sessions()]


# -- permissions and forms --


@pytest.mark.rule("cancel.pending-permissions")
async def test_a_permission_request_after_the_cancel_is_answered_as_cancelled(tmp_path):
    log = tmp_path / "log"
    project = tmp_path / "project"
    project.mkdir()
    handlers = ClientHandlers(permissions=allow_all)
    async with hostile_agent("asks-after-cancel", project, "--log", str(log), handlers=handlers) as agent:
        session = await agent.new_session(project)
        turn = EventCollector(session.prompt("go"))
        await turn.until(AgentMessageChunk)
        session.cancel()
        assert (await turn.end())[-1].stop_reason == "cancelled"
    assert logged(log, "after cancel")["result"] == {"outcome": {"outcome": "cancelled"}}


async def test_unfair_permission_options_are_never_approved(tmp_path):
    handlers = ClientHandlers(permissions=allow_reads)
    async with hostile_agent("asks-unfairly", tmp_path, handlers=handlers) as agent:
        session = await agent.new_session(tmp_path)
        text = (await session.ask("go")).text
    assert {line.split(": ")[1] for line in text.splitlines()} == {"not allowed"}
    assert len(text.splitlines()) == 6


async def test_forms_without_a_form_handler_are_not_accepted(tmp_path):
    async with hostile_agent("asks-forms", tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        text = (await session.ask("go")).text
    assert {line.split(": ")[1] for line in text.splitlines()} == {"not accepted"}


# -- files and terminals --


@pytest.mark.rule("file.inside-roots", "accord.client-unknown-session")
@pytest.mark.parametrize("name", ["reads-outside", "terminal-outside"])
async def test_reads_and_terminals_outside_the_session_folders_are_refused(name, tmp_path):
    async with hostile_agent(name, tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        text = (await session.ask("go")).text
    assert "ok" not in {line.rsplit(": ")[-1] for line in text.splitlines()}, text
    assert len(text.splitlines()) >= 3


@pytest.mark.rule("file.inside-roots")
async def test_writes_outside_the_session_folders_are_refused(tmp_path):
    async with hostile_agent("writes-outside", tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        *writes, end = (await session.ask("go")).text.splitlines()
    assert end == "outside: untouched"
    assert "ok" not in {line.rsplit(": ")[-1] for line in writes}, writes
    assert len(writes) == 5


async def test_the_number_of_running_terminals_is_limited(tmp_path):
    log = tmp_path / "log"
    project = tmp_path / "project"
    project.mkdir()
    async with hostile_agent("many-terminals", project, "--log", str(log)) as agent:
        session = await agent.new_session(project)
        assert (await session.ask("go")).text == "asked for 1000 terminals, got some"
    answers = [message for message in messages(log) if "method" not in message and "pid" not in message]
    assert sum("result" in answer for answer in answers) == MAX_RUNNING
    refused = {answer["error"]["message"] for answer in answers if "error" in answer}
    assert refused == {
        f"'/bin/sh' was not started: {MAX_RUNNING} commands run in this session; end one first"
    }


# -- dialects and irregularities --


@pytest.mark.dialect(18, 19, 20, 39, 67)
async def test_every_agent_dialect_is_repaired(tmp_path):
    log = tmp_path / "log"
    project = tmp_path / "project"
    project.mkdir()
    rows: set[int] = set()

    def observe(report):
        if report.kind == "dialect":
            rows.add(report.row)

    async with hostile_agent(
        "dialects", project, "--log", str(log), options=ClientOptions(observer=observe)
    ) as agent:
        session = await agent.new_session(project)
        answer = await session.ask("go")
        assert answer.stop_reason == "end_turn"
        assert answer.usage is not None
        shown = b" ".join(map(encode, session.state.snapshot())).decode()
        assert session.state.settings.current_mode_id == "code"
        assert text_of(session.state.tool_calls["c17"].content) == "row 102, row 18: second"
        await session.set_config_option("effort", "low")
        await agent.authenticate("plain")
        old = await agent.load_session("s-old", project)
        late = EventCollector(old.events())
        assert text_of(await late.until(AgentMessageChunk)) == "row 62, late"
        await late.cancel()
        with pytest.raises(RpcError, match="Session not found"):
            await agent.load_session("no-such", project)
    missing = [row for row in UPDATE_ROWS if row not in (18, 55, 57, 101) and f"row {row}" not in shown]
    assert missing == []
    assert "row-55" in shown
    assert "row-57.txt" in shown
    assert '"row 3"' not in shown, "the final text repeats what was sent before"
    repaired = {row for row in DIALECT_ROWS if DIALECTS[row].handled in ("repair", "alias")}
    assert repaired - rows == set(), (sorted(repaired - rows), sorted(rows))
    assert logged(log, "row 67")["error"]["code"] == -32601
    # Options made up by a repair are never selected by kind: that request stays undecided.
    rejected, undecided = {"outcome": "selected", "optionId": "reject"}, {"outcome": "cancelled"}
    for row, outcome in (("row 21", rejected), ("row 22", undecided), ("row 23", rejected)):
        assert logged(log, row)["result"]["outcome"] == outcome


async def test_irregularities_of_real_agents_do_not_fail_the_turn(tmp_path):
    async with hostile_agent("wild", tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        watching = EventCollector(session.events())
        answer = await session.ask("go")
        assert answer.stop_reason == "end_turn"
        assert answer.text.startswith("Let me see. ")
        assert answer.text.endswith("missing file: -32002\nThat is all.")
        await watching.until(SessionInfoUpdate)
        await watching.cancel()
        calls = session.state.tool_calls
        assert (calls["late"].status, calls["late"].title) == ("completed", "Announced late")
        assert calls["bare"].ended_without_result
        assert kinds(watching.events).count("PermissionAsked") == 5
        assert [command.name for command in session.state.commands] == ["early"]


async def run_turn(name, folder) -> None:
    async with hostile_agent(name, folder) as agent:
        session = await agent.new_session(folder)
        await session.ask("go")


def messages(log) -> list[Any]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def logged(log, name: str) -> Any:
    return next(message[name] for message in messages(log) if name in message)
