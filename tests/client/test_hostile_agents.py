"""Agents with bad manners, as processes, against the client library: a turn always ends, visibly, and nothing is left."""

import json
from typing import Any

import pytest
from tests.client.hostile import hostile
from tests.client.peer import Watching, kinds

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
from accord.testing.hostile import habits, summary
from accord.testing.hostile.agent import LAST_WORDS
from accord.testing.hostile.dialects import SHOWN, SPOKEN
from accord.testing.hostile.floods import PIECES
from accord.testing.hostile.noise import NOISE
from accord.workspace.terminals import MAX_RUNNING

SHORT = TimeLimits(request=0.2, startup=60, silence=0.2, cancel=0.2)


def test_every_habit_has_a_name_of_its_own_and_says_what_it_does():
    assert len(habits()) == sum(1 for kind in habits().values() if summary(kind).endswith("."))
    assert all(name == kind.habit for name, kind in habits().items())


# -- death --------------------------------------------------------------------------------------------------------


@pytest.mark.rule(37)
@pytest.mark.parametrize("name", ["dies-at-start", "dies-in-initialize"])
async def test_death_before_the_handshake(name, tmp_path):
    with pytest.raises(HandshakeFailed, match=LAST_WORDS) as caught:
        async with hostile(name, tmp_path):
            pass
    assert caught.value.exit_code == 7


@pytest.mark.rule(37)
@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("dies-opening", Crashed, LAST_WORDS),
        ("dies-in-turn", Crashed, LAST_WORDS),
        ("dies-unheard", Crashed, LAST_WORDS),
        ("dies-asking", Crashed, LAST_WORDS),
        ("killed-in-turn", Killed, "SIGKILL"),
        ("hangs-up", ConnectionClosed, "closed its output"),
    ],
)
async def test_death_at_work(name, error, said, tmp_path):
    with pytest.raises(error, match=said):
        await one_turn(name, tmp_path)


async def test_death_after_the_answer_takes_nothing_back(tmp_path):
    async with hostile("dies-after-answer", tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        answer = await session.ask("go")
        assert (answer.text, answer.stop_reason) == ("Done, and gone.", "end_turn")


@pytest.mark.parametrize("name", ["ignores-the-end", "leaves-children"])
async def test_who_does_not_want_to_go_is_ended_with_all_its_children(name, tmp_path):
    async with hostile(name, tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        await session.ask("go")


async def test_harm_that_is_done_once_is_over_after_a_restart(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    options = ClientOptions(restart=RestartPolicy(max_restarts=1, pause=0))
    words = ("--once", str(tmp_path / "done"))
    async with hostile("dies-in-turn", project, *words, options=options) as agent:
        session = await agent.new_session(project)
        watching = Watching(session.events())
        with pytest.raises(Crashed):
            await session.ask("go")
        await watching.until(AgentRestarted)
        assert (await session.ask("again")).text == "All is well."
        await watching.leave()


# -- silence ------------------------------------------------------------------------------------------------------


async def test_silence_at_the_start(tmp_path):
    options = ClientOptions(limits=TimeLimits(startup=0.2))
    with pytest.raises(RequestTimeout, match=r"initialize was not answered within 0\.2 s"):
        async with hostile("silent-at-start", tmp_path, options=options):
            pass


async def test_silence_where_a_session_is_opened(tmp_path):
    async with hostile("silent-opening", tmp_path, options=ClientOptions(limits=SHORT)) as agent:
        with pytest.raises(RequestTimeout, match="session/new"):
            await agent.new_session(tmp_path)


@pytest.mark.rule(159)
@pytest.mark.parametrize("name", ["silent-in-turn", "silent-after-cancel"])
async def test_silence_in_a_turn(name, tmp_path):
    limits = TimeLimits(silence=0.2, cancel=0.2)
    async with hostile(name, tmp_path, options=ClientOptions(limits=limits)) as agent:
        session = await agent.new_session(tmp_path)
        turn = Watching(session.prompt("go"))
        with pytest.raises(TurnSilent):
            await turn.end()
        assert isinstance(turn.events[-1], TurnEnded)


async def test_cancelled_turns_end_as_the_agent_says(tmp_path):
    for name, reason in (("waits-for-cancel", "cancelled"), ("ends-after-cancel", "end_turn")):
        async with hostile(name, tmp_path) as agent:
            session = await agent.new_session(tmp_path)
            turn = Watching(session.prompt("go"))
            await turn.until(AgentMessageChunk)
            session.cancel()
            assert (await turn.end())[-1].stop_reason == reason


# -- floods -------------------------------------------------------------------------------------------------------


async def test_of_a_flood_nothing_is_lost_doubled_or_reordered(tmp_path):
    async with hostile("floods", tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        numbers = [int(line.split()[0]) for line in (await session.ask("go")).text.splitlines()]
        assert numbers == list(range(PIECES))


async def test_a_flood_without_an_end_is_cancelled_and_ended(tmp_path):
    limits = TimeLimits(cancel=0.2)
    async with hostile("floods-forever", tmp_path, options=ClientOptions(limits=limits)) as agent:
        session = await agent.new_session(tmp_path)
        async for event in session.prompt("go"):
            if isinstance(event, AgentMessageChunk):
                break


@pytest.mark.parametrize(
    ("name", "text", "survived"),
    [
        ("floods-stderr", "Did you read all that?", set()),
        ("huge-message", "Here it comes. There it was.", {"oversized"}),
        ("deep-message", "Still there?", {"noise", "invalid"}),
    ],
)
async def test_too_much_of_something(name, text, survived, tmp_path):
    reports: list[str] = []
    options = ClientOptions(observer=lambda report: reports.append(report.kind))
    async with hostile(name, tmp_path, options=options) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("go")).text == text
    assert set(reports) <= survived
    assert bool(reports) == bool(survived)


# -- noise and odd answers ----------------------------------------------------------------------------------------


@pytest.mark.rule(22)
async def test_noise_is_skipped_and_reported(tmp_path):
    reports: list[Any] = []
    async with hostile("noise", tmp_path, options=ClientOptions(observer=reports.append)) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("go")).text == "One, two."
    told = b"\n".join(report.frame for report in reports)
    for line in NOISE[:2]:
        assert line in told


@pytest.mark.rule(20, 49)
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
async def test_what_nobody_asked_for_changes_nothing(name, text, tmp_path):
    async with hostile(name, tmp_path) as agent:
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
async def test_answers_that_are_none(name, error, tmp_path):
    with pytest.raises(error):
        await one_turn(name, tmp_path)


@pytest.mark.rule(153, 154)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("refuses", "refusal"),
        ("runs-out", "max_tokens"),
        ("unknown-stop", None),
        ("dialect-stops", "cancelled"),
    ],
)
async def test_ends_that_are_no_success(name, reason, tmp_path):
    async with hostile(name, tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("go")).stop_reason == reason


async def test_a_list_without_an_end(tmp_path):
    async with hostile("endless-list", tmp_path) as agent:
        with pytest.raises(BadAnswer, match="the list has no end"):
            _ = [info async for info in agent.list_sessions()]


# -- consent ------------------------------------------------------------------------------------------------------


@pytest.mark.rule(165)
async def test_permission_that_is_asked_for_after_the_cancel(tmp_path):
    log = tmp_path / "log"
    project = tmp_path / "project"
    project.mkdir()
    handlers = ClientHandlers(permissions=allow_all)
    async with hostile("asks-after-cancel", project, "--log", str(log), handlers=handlers) as agent:
        session = await agent.new_session(project)
        turn = Watching(session.prompt("go"))
        await turn.until(AgentMessageChunk)
        session.cancel()
        assert (await turn.end())[-1].stop_reason == "cancelled"
    assert heard(log, "after cancel")["result"] == {"outcome": {"outcome": "cancelled"}}


async def test_options_that_leave_no_choice_are_no_consent(tmp_path):
    handlers = ClientHandlers(permissions=allow_reads)
    async with hostile("asks-unfairly", tmp_path, handlers=handlers) as agent:
        session = await agent.new_session(tmp_path)
        said = (await session.ask("go")).text
    assert {line.split(": ")[1] for line in said.splitlines()} == {"not allowed"}
    assert len(said.splitlines()) == 6


async def test_forms_that_nobody_is_there_for(tmp_path):
    async with hostile("asks-forms", tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        said = (await session.ask("go")).text
    assert {line.split(": ")[1] for line in said.splitlines()} == {"not accepted"}


# -- files and terminals ------------------------------------------------------------------------------------------


@pytest.mark.rule(245, 384)
@pytest.mark.parametrize("name", ["reads-outside", "terminal-outside"])
async def test_what_lies_outside_stays_out_of_reach(name, tmp_path):
    async with hostile(name, tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        said = (await session.ask("go")).text
    assert "ok" not in {line.rsplit(": ")[-1] for line in said.splitlines()}, said
    assert len(said.splitlines()) >= 3


@pytest.mark.rule(245)
async def test_nothing_outside_is_written(tmp_path):
    async with hostile("writes-outside", tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        *writes, end = (await session.ask("go")).text.splitlines()
    assert end == "outside: untouched"
    assert "ok" not in {line.rsplit(": ")[-1] for line in writes}, writes
    assert len(writes) == 5


async def test_of_a_thousand_terminals_as_many_run_as_may(tmp_path):
    log = tmp_path / "log"
    project = tmp_path / "project"
    project.mkdir()
    async with hostile("many-terminals", project, "--log", str(log)) as agent:
        session = await agent.new_session(project)
        assert (await session.ask("go")).text == "asked for 1000 terminals, got some"
    answers = [message for message in messages(log) if "method" not in message and "pid" not in message]
    assert sum("result" in answer for answer in answers) == MAX_RUNNING
    refused = {answer["error"]["message"] for answer in answers if "error" in answer}
    assert refused == {
        f"'/bin/sh' was not started: {MAX_RUNNING} commands run in this session; end one first"
    }


# -- dialects and the wild ----------------------------------------------------------------------------------------


@pytest.mark.dialect(18, 19, 20, 39, 67)
async def test_every_dialect_an_agent_can_speak_is_understood(tmp_path):
    log = tmp_path / "log"
    project = tmp_path / "project"
    project.mkdir()
    rows: set[int] = set()

    def observe(report):
        if report.kind == "dialect":
            rows.add(report.row)

    async with hostile(
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
        late = Watching(old.events())
        assert text_of(await late.until(AgentMessageChunk)) == "row 62, late"
        await late.leave()
        with pytest.raises(RpcError, match="Session not found"):
            await agent.load_session("no-such", project)
    missing = [row for row in SHOWN if row not in (18, 55, 57, 101) and f"row {row}" not in shown]
    assert missing == []
    assert "row-55" in shown
    assert "row-57.txt" in shown
    assert '"row 3"' not in shown, "the final text doubles what was said"
    repaired = {row for row in SPOKEN if DIALECTS[row].handled in ("repair", "alias")}
    assert repaired - rows == set(), (sorted(repaired - rows), sorted(rows))
    assert heard(log, "row 67")["error"]["code"] == -32601
    # Nobody decides by the kind of an option that a repair made up: that question stays undecided.
    rejected, undecided = {"outcome": "selected", "optionId": "reject"}, {"outcome": "cancelled"}
    for row, outcome in (("row 21", rejected), ("row 22", undecided), ("row 23", rejected)):
        assert heard(log, row)["result"]["outcome"] == outcome


async def test_every_habit_of_real_agents_costs_no_turn(tmp_path):
    async with hostile("wild", tmp_path) as agent:
        session = await agent.new_session(tmp_path)
        watching = Watching(session.events())
        answer = await session.ask("go")
        assert answer.stop_reason == "end_turn"
        assert answer.text.startswith("Let me see. ")
        assert answer.text.endswith("missing file: -32002\nThat is all.")
        await watching.until(SessionInfoUpdate)
        await watching.leave()
        calls = session.state.tool_calls
        assert (calls["late"].status, calls["late"].title) == ("completed", "Announced late")
        assert calls["bare"].ended_without_result
        assert kinds(watching.events).count("PermissionAsked") == 5
        assert [command.name for command in session.state.commands] == ["early"]


async def one_turn(name, folder) -> None:
    async with hostile(name, folder) as agent:
        session = await agent.new_session(folder)
        await session.ask("go")


def messages(log) -> list[Any]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def heard(log, name: str) -> Any:
    return next(message[name] for message in messages(log) if name in message)
