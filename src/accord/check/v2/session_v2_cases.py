"""Cases of version 2: open, list, resume, close and delete sessions, and their options."""

from collections.abc import Callable
from typing import Any, Final

from accord.check.agent.agent_fixture import AgentCases, AgentFixture, CallCase, check_calls
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.agent.session_list_cases import list_sessions, own_session_ids, session_ids
from accord.check.checked_connection import CallAnswer
from accord.check.findings import CaseUnavailable, RuleId
from accord.check.v2.agent_v2 import TurnV2, is_state, is_user_message
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine

case: Final = AgentCases()

_MESSAGES: Final = ("user_message", "agent_message", "agent_thought")
_CHUNKS: Final = tuple(f"{kind}_chunk" for kind in _MESSAGES)


@case("v2-session.new v2-session.list")
async def new_and_listed(fixture: AgentFixture) -> None:
    """New sessions: two sessions, lists with and without the folder."""
    agent, first = await fixture.open_session()
    second = await fixture.new_session(agent, cwd=str(fixture.extra))
    failure = f"two sessions have the ids {first!r} and {second!r}"
    if not fixture.judge("v2-session.new", bool(first) and first != second, "new ids", failure):
        return
    if fixture.has_action("talk"):  # some agents do not list sessions without a turn
        for id in (first, second):
            await fixture.run_action(agent, id, "talk")
    rule: RuleId = "v2-session.list"
    entries, answer = await list_sessions(agent)
    fixture.judge(rule, answer.ok, "it returns a list", f"session/list gave {answer.summary}", answer)
    filtered, answer = await list_sessions(agent, cwd=fixture.cwd)
    others = [one for one in filtered if at(one, "cwd") != fixture.cwd]
    missing = first in session_ids(entries) and first not in session_ids(filtered)
    failure = "the filter returns other folders" if others else "the session of the folder is missing"
    fixture.judge(rule, not others and not missing, "only sessions of the folder", failure, answer)
    none, answer = await list_sessions(agent, cwd="/nonexistent/check")
    failure = f"a folder without sessions gave {answer.summary}"
    fixture.judge(rule, answer.ok and none == [], "no match is an empty list", failure, answer)


@case(
    "v2-session.resume v2-session.resume-state v2-session.replay v2-session.replay-ids "
    "v2-session.replay-whole-message"
)
async def resume(fixture: AgentFixture) -> None:
    """Resuming: a turn, then session/resume without and with replay, in a new process where it can."""
    agent, session = await fixture.open_session()
    turn = await fixture.run_action(agent, session, "talk")
    plain_agent, answer = await _resume(fixture, agent, session)
    failure = f"session/resume gave {answer.summary}"
    if not fixture.judge("v2-session.resume", answer.ok, "it works", failure, answer):
        return
    replayed = [line for line in _between(plain_agent, answer) if line.kind in _MESSAGES + _CHUNKS]
    failure = "messages were replayed without `replayFrom`"
    fixture.judge("v2-session.resume", not replayed, "nothing is replayed", failure, *replayed[:2])
    _check_state(fixture, plain_agent, answer)
    replaying_agent, answer = await _resume(fixture, agent, session, replayFrom={"type": "start"})
    failure = f"session/resume with a replay gave {answer.summary}"
    if not fixture.judge("v2-session.replay", answer.ok, "it works", failure, answer):
        return
    _check_state(fixture, replaying_agent, answer)
    await replaying_agent.ping()
    message_id = turn.message_id if isinstance(turn, TurnV2) else None
    _check_replay(fixture, replaying_agent, answer, message_id)


async def _resume(
    fixture: AgentFixture, agent: AgentUnderTest, session: str, **more: Any
) -> tuple[AgentUnderTest, CallAnswer]:
    """Resume in a new process; in the same one if the agent does not store sessions."""
    params = {"sessionId": session, "cwd": fixture.cwd, **more}
    other = await fixture.start_agent()
    answer = await other.call("session/resume", params)
    if answer.ok:
        return other, answer
    return agent, await agent.call("session/resume", params)


def _between(agent: AgentUnderTest, answer: CallAnswer) -> list[WireLine]:
    """The agent's lines between a request and its answer."""
    lines = agent.lines[answer.request.number : answer.line.number - 1]
    return [line for line in lines if line.sender == "agent"]


def _check_state(fixture: AgentFixture, agent: AgentUnderTest, answer: CallAnswer) -> None:
    reported = any(line.kind == "state_update" for line in _between(agent, answer))
    failure = "no state_update before the response to session/resume"
    fixture.judge("v2-session.resume-state", reported, "the state comes first", failure, answer)


def _check_replay(fixture: AgentFixture, agent: AgentUnderTest, answer: CallAnswer, message_id: Any) -> None:
    replayed = [line for line in _between(agent, answer) if line.kind in _MESSAGES + _CHUNKS]
    later = [line for line in agent.lines[answer.line.number :] if line.kind in _MESSAGES + _CHUNKS]
    failure = "no message came before the response" if not replayed else "messages came after the response"
    passed = bool(replayed) and not later
    fixture.judge("v2-session.replay", passed, "the messages come first", failure, answer, *later[:1])
    if not replayed:
        return
    has_id = any(is_user_message(line, message_id) for line in replayed)
    failure = f"no replayed user message has the id {message_id!r} of its prompt"
    fixture.judge("v2-session.replay-ids", has_id, "ids stay", failure, answer)
    chunks = [line for line in replayed if line.kind in _CHUNKS]
    if not chunks:
        fixture.add_pass("v2-session.replay-whole-message", "only whole messages are replayed", answer)
    for chunk in chunks:
        whole = chunk.kind.removesuffix("_chunk")
        id = chunk.update.get("messageId")
        begun = any(
            line.kind == whole and line.update.get("messageId") == id and line.number < chunk.number
            for line in replayed
        )
        failure = f"a chunk of {id!r} without the whole message before it"
        fixture.judge("v2-session.replay-whole-message", begun, "messages come first", failure, chunk)


@case("v2-session.close v2-session.close-silent")
async def close(fixture: AgentFixture) -> None:
    """Closing: an idle session, then a busy one."""
    rule: RuleId = "v2-session.close"
    agent, session = await fixture.open_session()
    await check_calls(agent, [CallCase(rule, "session/close", {"sessionId": session}, "object")])
    session = await fixture.new_session(agent)
    request = await fixture.start_busy_turn(agent, session)
    answer = await agent.call("session/close", {"sessionId": session}, rule=rule)
    lines = agent.lines[request.number : answer.line.number]
    idles = [line for line in lines if is_state(line, "idle") and line.session == session]
    cancelled = bool(idles) and idles[-1].update.get("stopReason") == "cancelled"
    failure = "closing a busy session: no idle with `cancelled` came before the response"
    fixture.judge(rule, answer.ok and cancelled, "the work ends first", failure, answer, *idles[-1:])
    await agent.ping()
    await agent.wait_for_line(_is_call_for(session), since=answer.line.number, timeout=1.0)
    later = [line for line in agent.lines[answer.line.number :] if _is_call_for(session)(line)]
    failure = "a message for the session after the response to its close"
    fixture.judge("v2-session.close-silent", not later, "nothing follows", failure, answer, *later[:2])


def _is_call_for(session: str) -> Callable[[WireLine], bool]:
    def matches(line: WireLine) -> bool:
        return line.sender == "agent" and bool(line.method) and line.session == session

    return matches


@case("v2-session.delete", "session.delete")
async def delete(fixture: AgentFixture) -> None:
    """Deleting: session/delete twice, then the list."""
    rule: RuleId = "v2-session.delete"
    agent, session = await fixture.open_session()
    if fixture.has_action("talk"):
        await fixture.run_action(agent, session, "talk")
    call = CallCase(rule, "session/delete", {"sessionId": session}, "object")
    await check_calls(agent, [call, call])
    entries, answer = await list_sessions(agent)
    listed_ids = own_session_ids(fixture, entries)
    fixture.judge(rule, session not in listed_ids, "it is gone", "a deleted session is listed", answer)


@case("v2-session.option-set v2-session.option-unknown")
async def options(fixture: AgentFixture) -> None:
    """Options: every value of a select, an unknown option and an unknown value."""
    agent = await fixture.start_agent()
    answer = await agent.new_session(fixture.cwd)
    session = at(answer.result, "sessionId")
    found = next((one for one in listed(answer.result, "configOptions") if at(one, "type") == "select"), None)
    if found is None:
        fixture.add_not_applicable(
            "v2-session.option-set v2-session.option-unknown", "it has no select option"
        )
        return
    id = at(found, "configId")
    for value in _values(found):
        params = {"sessionId": session, "configId": id, "type": "id", "value": value}
        answer = await agent.call("session/set_config_option", params)
        now = {at(one, "configId"): at(one, "currentValue") for one in listed(answer.result, "configOptions")}
        failure = f"setting {id} to {value!r} gave {answer.summary}"
        fixture.judge("v2-session.option-set", now.get(id) == value, "the list has it", failure, answer)
    unknown: RuleId = "v2-session.option-unknown"
    wrong = ({"configId": "nope", "value": "x"}, {"configId": id, "value": "no-such-value"})
    await check_calls(
        agent,
        [
            CallCase(
                unknown, "session/set_config_option", {"sessionId": session, "type": "id", **one}, -32602
            )
            for one in wrong
        ],
    )


def _values(option: Any) -> list[Any]:
    """The values of a select, with or without groups."""
    entries = listed(option, "options")
    flat = [inner for one in entries for inner in (listed(one, "options") or [one])]
    values = [at(one, "value") for one in flat]
    if not values:
        raise CaseUnavailable("the option has no values")
    return values
