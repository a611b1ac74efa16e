"""Cases: clients that die, stall, answer twice or wrongly, send invalid or huge lines, or do not read.

The agent must continue or exit. It must not hang, and must not treat any of this as consent.
"""

from contextlib import suppress
from typing import Any, Final

from accord.check.agent.agent_fixture import ALL_CAPABILITIES, AgentCases, AgentFixture, find_effects
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.agent.client_responder import allow, reject
from accord.check.checked_connection import leave_unanswered, result_reply
from accord.check.findings import CaseUnavailable
from accord.trace.wire_line import WireLine

case: Final = AgentCases()


_HUGE_BYTES: Final = 4 * 1024 * 1024
_INVALID_LINES: Final = (
    b"",
    b"   ",
    b"hello?",
    b"\xff\xfe\x00",
    b"null",
    b'"text"',
    b"[" * 5000,
    b'{"jsonrpc":"2.0","id":',
)
_WRONG_ANSWERS: Final[tuple[Any, ...]] = (
    None,
    5,
    "yes",
    [],
    {},
    {"outcome": 5},
    {"outcome": {"outcome": "selected", "optionId": 7}},
)


async def _start_permission_request(
    fixture: AgentFixture, agent: AgentUnderTest, name: str
) -> tuple[WireLine, WireLine, str]:
    """Run the permission action up to its request; returns the prompt, the request and the session."""
    session = await fixture.new_session(agent)
    agent.responder.overrides["session/request_permission"] = leave_unanswered
    request = agent.prompt(session, fixture.action("permission").prompt_text(file=name))
    permission = await fixture.wait_for_permission_request(agent, request)
    agent.responder.overrides["session/request_permission"] = reject  # for later requests
    return request, permission, session


async def _check_exit(fixture: AgentFixture, phase: str, agent: AgentUnderTest) -> None:
    problem = await agent.close()
    fixture.judge(
        "fault-dies", not problem, f"disconnected {phase}, it exits", f"disconnected {phase}: {problem}"
    )


@case("fault-dies")
async def client_dies(fixture: AgentFixture) -> None:
    """A client that dies: at once, after the handshake, in a turn, during a permission request."""
    await _check_exit(fixture, "at once", await fixture.launch())
    await _check_exit(fixture, "after the handshake", await fixture.start_agent())
    if fixture.has_action("busy"):
        with suppress(CaseUnavailable):
            agent, session = await fixture.open_session()
            await fixture.start_busy_turn(agent, session)
            await _check_exit(fixture, "in a turn", agent)
    if fixture.has_action("permission"):
        with suppress(CaseUnavailable):
            agent = await fixture.start_agent()
            await _start_permission_request(fixture, agent, "disconnected.txt")
            await _check_exit(fixture, "during a permission request", agent)


@case("fault-stalls")
async def client_stalls(fixture: AgentFixture) -> None:
    """A client that stalls: an unanswered permission request, then a cancel."""
    rule = "fault-stalls"
    agent = await fixture.start_agent()
    request, permission, session = await _start_permission_request(fixture, agent, "stalled.txt")
    await agent.ping(rule=rule)
    agent.cancel(session)
    turn = await agent.finish_turn(request, rule=rule, timeout=fixture.timeouts.soon)
    effects = find_effects(agent, permission.number, fixture.folder / "stalled.txt")
    frames = [permission, turn.answer.line]
    failure = "an unanswered permission request counts as consent"
    fixture.judge(rule, not effects, "it continues, and a cancel ends the turn", failure, *frames)


@case("fault-twice")
async def second_answer(fixture: AgentFixture) -> None:
    """A client that answers twice: a permission request is rejected, then allowed."""
    rule = "fault-twice"
    agent = await fixture.start_agent_with_effect()
    request, permission, _ = await _start_permission_request(fixture, agent, "twice.txt")
    for reply in (reject(permission), allow(permission)):
        if reply is not None:
            agent.reply(permission, reply)
    await agent.finish_turn(request, rule=rule)
    await agent.ping(rule=rule)
    effects = find_effects(agent, permission.number, fixture.folder / "twice.txt")
    failure = "a second answer counts"
    fixture.judge(rule, not effects, "only the first answer counts", failure, permission)


@case("fault-unknown-ids")
async def unknown_ids(fixture: AgentFixture) -> None:
    """Answers to unknown ids: answers with ids of no request."""
    rule = "fault-unknown-ids"
    agent = await fixture.start_agent()
    for id in (12345, "unknown-id", None, 1.5):
        agent.send({"jsonrpc": "2.0", "id": id, "result": {}})
        agent.send({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no"}})
    answer = await agent.ping(rule=rule)
    fixture.add_pass(rule, "it continues", answer)


@case("fault-types")
async def wrong_types(fixture: AgentFixture) -> None:
    """Answers of wrong types: answers to a permission request without a valid outcome."""
    rule = "fault-types"
    agent = await fixture.start_agent_with_effect()
    for number, value in enumerate(_WRONG_ANSWERS):
        name = f"wrong-{number}.txt"
        turn, requests, effects = await fixture.run_permission_action(
            name, lambda line, value=value: result_reply(value), agent=agent
        )
        frames = [requests[0], *effects[:2], turn.answer.line]
        failure = f"the answer {value!r} counts as consent"
        fixture.judge(rule, not effects, "wrong answers are not consent", failure, *frames)
    await agent.ping(rule=rule)


@case("fault-huge")
async def huge_line(fixture: AgentFixture) -> None:
    """A huge line: a request of many megabytes."""
    rule = "fault-huge"
    agent = await fixture.start_agent()
    await agent.call("_check/huge", {"text": "x" * _HUGE_BYTES}, rule=rule)
    answer = await agent.ping(rule=rule)
    fixture.add_pass(rule, f"a line of {_HUGE_BYTES // 1024 // 1024} MiB is accepted", answer)


@case("fault-noise")
async def invalid_lines(fixture: AgentFixture) -> None:
    """Invalid lines: lines that are not messages, in a session."""
    rule = "fault-noise"
    agent, session = await fixture.open_session()
    for line in _INVALID_LINES:
        agent.send(line)
        await agent.ping(rule=rule)
    if fixture.has_action("talk"):
        turn = await agent.run_turn(session, fixture.action("talk").prompt_text(), rule=rule)
        fixture.add_pass(rule, "the session continues", turn)


@case("fault-slow")
async def slow_reader(fixture: AgentFixture) -> None:
    """A slow reader: nothing is read during a turn."""
    rule = "fault-slow"
    agent, session = await fixture.open_session()
    await fixture.require_plain_turn(agent, session)
    agent.launched.transport.pause()
    request = agent.prompt(session, fixture.action("talk").prompt_text())
    await agent.clock.sleep(0.5)
    agent.launched.transport.resume()
    turn = await agent.finish_turn(request, rule=rule)
    failure = f"the turn gave {turn.answer.summary}"
    fixture.judge(rule, turn.answer.ok, "the turn is complete after reading continues", failure, turn.answer)


@case("fault-pieces")
async def byte_by_byte_input(fixture: AgentFixture) -> None:
    """Messages in pieces: a handshake and a request, byte by byte."""
    rule = "fault-pieces"
    agent = await fixture.launch("byte by byte", byte_by_byte=True)
    answer = await agent.initialize(ALL_CAPABILITIES, rule=rule)
    if answer.ok:
        answer = await agent.call("_check/pieces", {"text": "sm\u00f8rrebr\u00f8d \u4f60\u597d"}, rule=rule)
        passed = answer.code != -32700
    else:
        passed = False
    failure = f"a message in pieces gave {answer.summary}"
    fixture.judge(rule, passed, "messages byte by byte are read", failure, answer)


@case("fault-reordered")
async def answers_in_other_order(fixture: AgentFixture) -> None:
    """Answers in another order: two permission requests, the later one answered first."""
    rule = "fault-reordered"
    agent = await fixture.start_agent_with_effect()
    if not (fixture.folder / "permitted.txt").exists():
        raise CaseUnavailable("the permitted action creates no file")
    first_prompt, first_request, _ = await _start_permission_request(fixture, agent, "first.txt")
    second_prompt, second_request, _ = await _start_permission_request(fixture, agent, "second.txt")
    for permission, reply in (
        (second_request, reject(second_request)),
        (first_request, allow(first_request)),
    ):
        if reply is not None:
            agent.reply(permission, reply)
    for prompt in (first_prompt, second_prompt):
        await agent.finish_turn(prompt, rule=rule)
    created = [name for name in ("first.txt", "second.txt") if (fixture.folder / name).exists()]
    failure = (
        f"the first request was allowed, the second rejected; created: {' and '.join(created) or 'nothing'}"
    )
    frames = [first_request, second_request]
    fixture.judge(rule, created == ["first.txt"], "each answer belongs to its request", failure, *frames)
