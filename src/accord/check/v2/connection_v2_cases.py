"""Cases of version 2: framing, `initialize`, sign-in, and calls with one expected answer."""

from typing import Any, Final

from accord.check.agent.agent_fixture import AgentCases, AgentFixture, CallCase, check_calls
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.agent.connection_cases import answers_without_id, check_refusal
from accord.check.checked_connection import ABSENT
from accord.check.findings import CaseUnavailable, RuleId
from accord.check.v2.agent_v2 import is_state
from accord.trace.trace_steps import at, listed

case: Final = AgentCases()

_REQUEST_IDS: Final = (0, -7, "a-1", 9007199254740991, "", "0")
_META: Final = {"example.com/x": {"a": [1]}}
_NOPE: Final = {"sessionId": "nope"}
_ENTITY: Final = "v2-cancel.unknown-entity"

CALLS: Final = (
    CallCase("v2-framing.agent-unknown-method", "nope/nope", {}, -32601),
    CallCase("v2-framing.agent-unknown-method", "session/load", {**_NOPE, "cwd": "$cwd"}, -32601),
    CallCase("v2-framing.agent-unknown-method", "session/set_mode", {**_NOPE, "modeId": "x"}, -32601),
    CallCase("v2-framing.agent-custom-request", "_check/x", {}, "any"),
    CallCase("v2-framing.meta-accepted", "session/new", {"cwd": "$cwd", "_meta": _META}, "result"),
    CallCase(
        "v2-session.unknown",
        "session/prompt",
        {**_NOPE, "prompt": [{"type": "text", "text": "hi"}]},
        -32002,
        error_data=_NOPE,
    ),
    CallCase(
        "v2-session.mcp-transport",
        "session/new",
        {"cwd": "$cwd", "mcpServers": [{"type": "_nope", "name": "x"}]},
        -32602,
    ),
    CallCase("v2-session.close-unknown", "session/close", _NOPE, ("object", -32002)),
    CallCase(
        "v2-session.replay-cursor",
        "session/resume",
        {"sessionId": "$session", "cwd": "$cwd", "replayFrom": {"type": "_nope"}},
        -32602,
    ),
    CallCase(
        "v2-session.additional-folders",
        "session/new",
        {"cwd": "$cwd", "additionalDirectories": ["$extra"]},
        "result",
        "session.additionalDirectories",
    ),
    CallCase(_ENTITY, "tool_call/cancel", {"sessionId": "$session", "toolCallId": "nope"}, -32602),
    CallCase(_ENTITY, "terminal/cancel", {"sessionId": "$session", "terminalId": "nope"}, -32602),
)
"""Calls in an open session."""


@case(" ".join(dict.fromkeys(call.rule for call in CALLS)) + " v2-framing.agent-error-members schema")
async def calls_in_a_session(fixture: AgentFixture) -> None:
    """Calls in a session: unknown methods, sessions, transports and entities, `_meta`."""
    agent, session = await fixture.open_session()
    await check_calls(agent, CALLS, session=session, cwd=fixture.cwd, extra=str(fixture.extra))


@case(
    "v2-framing.agent-only-messages v2-framing.agent-one-answer v2-framing.agent-returns-id "
    "v2-framing.agent-silent-on-notification v2-cancel.unknown-request"
)
async def ids_and_notifications(fixture: AgentFixture) -> None:
    """Ids and notifications: requests with various ids, notifications that nothing answers."""
    agent, session = await fixture.open_session()
    rule: RuleId = "v2-framing.agent-returns-id"
    answer = None
    for id in _REQUEST_IDS:
        answer = await agent.call("_check/id", {}, id=id, rule=rule)
        failure = f"the id {id!r} gave {answer.summary}, without the id"
        fixture.judge(rule, answer.line.id is not None, f"the id {id!r} was returned", failure, answer)
    answered = None if answer is None else answer.request.id
    silent, ignored = "v2-framing.agent-silent-on-notification", "v2-cancel.unknown-request"
    notifications: tuple[tuple[RuleId, str, Any], ...] = (
        (silent, "session/cancel", {"sessionId": session, "_meta": _META}),
        (silent, "_check/note", {}),
        (silent, "$/note", {}),
        (ignored, "$/cancel_request", {"requestId": 9999}),
        (ignored, "$/cancel_request", {"requestId": answered}),
    )
    for rule, method, params in notifications:
        sent = agent.notify(method, params)
        ping = await agent.ping(rule=rule)
        replies = answers_without_id(agent, sent)
        failure = f"the notification {method} was answered"
        fixture.judge(rule, not replies, f"{method} was ignored", failure, sent, *replies[:1] or [ping.line])


def _require_lines(fixture: AgentFixture) -> None:
    """Raise `CaseUnavailable` where the transport sends only messages."""
    if fixture.address.startswith("http"):
        raise CaseUnavailable("over HTTP only messages can be sent")


def _require_process(fixture: AgentFixture) -> None:
    """Raise `CaseUnavailable` where the transport decides when `initialize` may come."""
    if fixture.address:
        raise CaseUnavailable("over the network, a connection begins with one initialize")


@case("v2-framing.batch-refused")
async def batches(fixture: AgentFixture) -> None:
    """Batches: `[]` and an array with a request."""
    rule: RuleId = "v2-framing.batch-refused"
    _require_lines(fixture)
    agent = await fixture.start_agent()
    for line in ("[]", '[{"jsonrpc":"2.0","id":"in-a-batch","method":"_check/x","params":{}}]'):
        sent = agent.send(line)
        await agent.ping(rule=rule)
        later = [one for one in agent.lines[sent.number :] if one.sender == "agent"]
        errors = [
            one for one in answers_without_id(agent, sent) if at(one.message, "error", "code") == -32600
        ]
        others = [one for one in later if one.id == "in-a-batch" or one.message is None]
        passed = len(errors) == 1 and not others
        failure = (
            f"{line[:20]} gave {len(errors)} errors -32600 without an id and {len(others)} other answers"
        )
        fixture.judge(rule, passed, "an array gives one error", failure, sent, *later[:3])


@case("v2-framing.invalid-id")
async def invalid_ids(fixture: AgentFixture) -> None:
    """Invalid ids: requests with the ids null and 1.5."""
    _require_lines(fixture)
    agent = await fixture.start_agent()
    for id in ("null", "1.5"):
        line = f'{{"jsonrpc":"2.0","id":{id},"method":"session/list","params":{{}}}}'
        await check_refusal(agent, line, "v2-framing.invalid-id", -32600)


@case("v2-framing.exits-at-end-of-input v2-framing.agent-known-methods v2-framing.agent-custom-members")
async def end_of_input(fixture: AgentFixture) -> None:
    """The end of the input: a turn, then the input is closed."""
    agent, session = await fixture.open_session()
    if fixture.has_action("talk"):
        await fixture.run_action(agent, session, "talk")
    problem = await agent.close()
    rule = "v2-framing.exits-at-end-of-input"
    if fixture.address:
        fixture.add_not_applicable(rule, "it is at an address")
    else:
        fixture.judge(rule, not problem, "it exits when its input ends", problem)


@case(
    "v2-initialize.version v2-initialize.agent-info v2-initialize.agent-capability-objects "
    "v2-initialize.newer-version v2-initialize.older-version v2-auth.method-members "
    "v2-auth.terminal-needs-capability v2-permission.forms-need-capability"
)
async def versions(fixture: AgentFixture) -> None:
    """Versions: initialize with 2, 65535 and 1, and a client without capabilities."""
    agent = await fixture.launch()
    answer = await agent.initialize(rule="v2-initialize.version", _meta=_META)
    version = at(answer.result, "protocolVersion")
    passed = version == 2
    fixture.judge("v2-initialize.version", passed, "2 gave 2", f"2 gave {answer.summary}", answer)
    if answer.ok:
        await _read_info(fixture, agent)
        await fixture.login(agent)
        if fixture.has_action("ask"):
            await _ask_without_forms(fixture, agent)
    agent = await fixture.launch("newer")
    answer = await agent.initialize({}, version=65535, rule="v2-initialize.newer-version")
    newer = at(answer.result, "protocolVersion")
    passed = answer.ok and isinstance(newer, int) and 2 <= newer < 65535
    failure = f"65535 gave {answer.summary}; expected the newest version it speaks"
    fixture.judge("v2-initialize.newer-version", passed, f"65535 gave {newer}", failure, answer)
    agent = await fixture.launch("older")
    answer = await agent.initialize(version=1, rule="v2-initialize.older-version")
    data = at(answer.line.message, "error", "data")
    refused = answer.code == -32022 and at(data, "requested") == 1 and isinstance(at(data, "supported"), list)
    passed = refused or at(answer.result, "protocolVersion") == 1
    failure = f"1 gave {answer.summary}; expected 1, or -32022 with `requested` and `supported`"
    fixture.judge("v2-initialize.older-version", passed, f"1 gave {answer.summary}", failure, answer)


async def _ask_without_forms(fixture: AgentFixture, agent: AgentUnderTest) -> None:
    """Let the agent ask the user of a client without forms. A gateway may wait for another client."""
    session = await fixture.new_session(agent)
    request = agent.prompt(session, fixture.action("ask").prompt_text())
    await agent.wait_for_line(
        lambda line: is_state(line, "idle"), since=request.number, timeout=fixture.timeouts.soon
    )
    agent.cancel(session)
    await agent.finish_turn(request)


async def _read_info(fixture: AgentFixture, agent: AgentUnderTest) -> None:
    info = at(agent.initialize_result, "info")
    named = all(isinstance(at(info, name), str) and at(info, name) for name in ("name", "version"))
    failure = "no `info` with a name and a version"
    fixture.judge("v2-initialize.agent-info", named, "it has a name and a version", failure)
    if not listed(agent.initialize_result, "authMethods"):
        rules = "v2-auth.terminal-needs-capability v2-auth.unknown-method v2-auth.login v2-auth.logout"
        fixture.add_not_applicable(rules, "it has no auth methods")


@case("v2-initialize.requests-before")
async def requests_before_initialize(fixture: AgentFixture) -> None:
    """Requests before initialize: session/new and session/cancel, then initialize."""
    rule: RuleId = "v2-initialize.requests-before"
    _require_process(fixture)
    agent = await fixture.launch()
    answer = await agent.call("session/new", {"cwd": fixture.cwd}, rule=rule)
    failure = f"session/new before initialize gave {answer.summary}; expected -32600"
    fixture.judge(rule, answer.code == -32600, "session/new gave -32600", failure, answer)
    agent.notify("session/cancel", {"sessionId": "nope"})
    answer = await agent.initialize(rule=rule)
    failure = f"after early messages initialize gave {answer.summary}"
    fixture.judge(rule, answer.ok, "initialize works afterwards", failure, answer)


@case("v2-initialize.repeated")
async def repeated_initialize(fixture: AgentFixture) -> None:
    """Repeated initialize: twice at the start, once after session/new."""
    rule: RuleId = "v2-initialize.repeated"
    _require_process(fixture)
    agent = await fixture.launch()
    await agent.initialize(rule=rule)
    answer = await agent.initialize(fixture.capabilities, rule=rule)
    failure = f"a second initialize gave {answer.summary}"
    fixture.judge(rule, answer.ok, "it may be repeated", failure, answer)
    await fixture.login(agent)
    await fixture.new_session(agent)
    params = {"protocolVersion": 2, **agent.introduction}
    answer = await agent.call("initialize", params, rule=rule)
    failure = f"initialize after session/new gave {answer.summary}; expected -32600"
    fixture.judge(rule, answer.code == -32600, "later it gives -32600", failure, answer)


@case("v2-auth.unknown-method v2-auth.login v2-auth.logout")
async def sign_in_and_out(fixture: AgentFixture) -> None:
    """Signing in and out: auth/login with `nope` and with the login of the script, then auth/logout."""
    agent = await fixture.start_agent(login=False)
    if not listed(agent.initialize_result, "authMethods"):
        fixture.add_not_applicable(
            "v2-auth.unknown-method v2-auth.login v2-auth.logout", "it has no auth methods"
        )
        return
    await check_calls(
        agent, [CallCase("v2-auth.unknown-method", "auth/login", {"methodId": "nope"}, "error")]
    )
    if not fixture.script.login:
        raise CaseUnavailable("the script names no login")
    login = await agent.call("auth/login", {"methodId": fixture.script.login})
    session = await agent.new_session(fixture.cwd)
    worked = login.ok and isinstance(login.result, dict) and session.ok
    failure = f"auth/login gave {login.summary}, then session/new {session.summary}"
    fixture.judge("v2-auth.login", worked, "sessions work after sign-in", failure, login, session)
    await check_calls(agent, [CallCase("v2-auth.logout", "auth/logout", ABSENT, "object")])
