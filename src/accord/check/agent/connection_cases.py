"""Cases: framing, envelopes, `initialize`, sign-in."""

from typing import Any, Final

from accord.check.agent.agent_fixture import (
    ALL_CAPABILITIES,
    AgentCase,
    AgentFixture,
    CallCase,
    capabilities_without,
    check_calls,
)
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.checked_connection import ABSENT, WireLine
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at, listed

_REQUEST_IDS: Final = (0, -7, "a-1", 9007199254740991, "", "0")

_PARAM_CALLS: Final = (
    CallCase(24, "session/new", {"mcpServers": []}, -32602),
    CallCase(24, "session/new", {"cwd": 5, "mcpServers": []}, -32602),
    CallCase(24, "session/prompt", {"sessionId": "$session"}, -32602),
    CallCase(24, "session/prompt", {"prompt": [{"type": "text", "text": "hi"}]}, -32602),
    CallCase(32, "session/new", {"cwd": "$cwd", "mcpServers": [], "zzz": 1}, "result"),
    CallCase(40, "session/new", {"cwd": "$cwd", "mcpServers": [], "_meta": "x"}, "result"),
    CallCase(26, "session/list", ABSENT, "result", "sessionCapabilities.list"),
    CallCase(26, "session/list", None, "result", "sessionCapabilities.list"),
)


async def _check_refusal(agent: AgentUnderTest, line: str, rule: int, code: int) -> None:
    """Send a line that is not a request; the agent must answer with an error without id, and continue."""
    sent = agent.send(line)
    if agent.initialize_result:
        await agent.ping(rule=rule)
    elif not (await agent.initialize(rule=rule)).ok:
        agent.notes.add_fail(rule, f"after {line!r} it does not answer initialize", [sent.evidence])
        return
    answers = _answers_without_id(agent, sent)
    found = [one for one in answers if isinstance(one.message, dict) and _error_code(one) == code]
    frames = [sent.evidence, *(one.evidence for one in answers)]
    agent.notes.judge(
        rule,
        bool(found),
        f"{line} gave {code}",
        f"after {line} the agent {_describe_answers(answers)}; expected {code}",
        frames,
    )


def _answers_without_id(agent: AgentUnderTest, since: WireLine) -> list[WireLine]:
    return [
        line
        for line in agent.lines[since.number :]
        if line.sender == "agent" and line.is_answer and line.id is None
    ]


def _error_code(line: WireLine) -> object:
    return at(line.message, "error", "code")


def _describe_answers(answers: list[WireLine]) -> str:
    return f"answered {_error_code(answers[0])}" if answers else "did not answer"


async def invalid_json(fixture: AgentFixture) -> None:
    agent = await fixture.launch()
    await _check_refusal(agent, "{oops", 21, -32700)


async def json_without_request(fixture: AgentFixture) -> None:
    agent = await fixture.launch()
    await agent.initialize()
    await _check_refusal(agent, '{"jsonrpc":"2.0"}', 23, -32600)
    await _check_refusal(agent, "5", 23, -32600)


async def batches(fixture: AgentFixture) -> None:
    agent = await fixture.launch()
    await agent.initialize()
    agent.send("[]")
    await agent.ping(rule=31)
    agent.send('[{"jsonrpc":"2.0","id":"in-a-batch","method":"_check/x","params":{}}]')
    answer = await agent.ping(rule=31)
    fixture.notes.add_pass(31, "it continues after a batch", answer.evidence)


async def ids_and_methods(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    for id in _REQUEST_IDS:
        answer = await agent.call("_check/id", {}, id=id, rule=9)
        returned = answer.line.id is not None
        failure = f"the id {id!r} gave {answer.summary}, without the id"
        fixture.notes.judge(9, returned, f"the id {id!r} was returned", failure, answer.evidence)
    answer = await agent.call("nope/nope", {})
    fixture.notes.judge(
        15, answer.code == -32601, answer.summary, f"{answer.summary}; expected -32601", answer.evidence
    )
    answer = await agent.call("_test/x", {})
    fixture.notes.judge(
        17, answer.code == -32601, answer.summary, f"{answer.summary}; expected -32601", answer.evidence
    )
    for method in ("proxy/initialize", "proxy/successor"):
        answer = await agent.call(method, {"method": "x"})
        failure = f"{method} gave {answer.summary}; expected -32601"
        fixture.notes.judge(373, answer.code == -32601, f"{method} gave -32601", failure, answer.evidence)
    await _check_notifications(fixture, agent, session, answer.request.id)


async def _check_notifications(
    fixture: AgentFixture, agent: AgentUnderTest, session: str, answered_id: object
) -> None:
    messages: tuple[tuple[int, str, Any], ...] = (
        (13, "session/cancel", {"sessionId": session}),
        (13, "_x/ping", {}),
        (19, "_test/n", {"a": 1}),
        (52, "$/cancel_request", {"requestId": 9999}),
        (52, "$/cancel_request", {"requestId": answered_id}),
        (56, "$/progress", {"token": 1}),
    )
    for rule, method, params in messages:
        sent = agent.notify(method, params)
        answer = await agent.ping(rule=rule)
        replies = _answers_without_id(agent, sent)
        broken_rule = rule if rule in (13, 52) else 13
        if replies:
            failure = f"the notification {method} was answered"
            fixture.notes.add_fail(broken_rule, failure, [sent.evidence, replies[0].evidence])
        else:
            fixture.notes.add_pass(13, "notifications are not answered", [sent.evidence])
            fixture.notes.add_pass(rule, f"{method} changed nothing", [sent.evidence, answer.line.evidence])


async def unusual_params(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    await check_calls(agent, _PARAM_CALLS, session=session, cwd=fixture.cwd)


async def meta_members(fixture: AgentFixture) -> None:
    """Send vendor `_meta` and trace context with all requests; none may fail because of it."""
    vendor = {"example.com/x": {"a": [1]}}
    trace = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "vendor=1",
        "baggage": "user=1",
    }
    agent = await fixture.launch()
    answers = [await agent.initialize({"fs": {"_meta": vendor}, "_meta": vendor}, _meta={**vendor, **trace})]
    await fixture.login(agent)
    answers.append(await agent.new_session(fixture.cwd, _meta=vendor))
    for answer in answers:
        failure = f"{answer.request.method} with `_meta` gave {answer.summary}"
        fixture.notes.judge(38, answer.ok, "`_meta` is accepted", failure, answer.evidence)
    session = at(answers[-1].result, "sessionId")
    if isinstance(session, str) and fixture.has_action("talk"):
        await fixture.require_plain_turn(agent, session)
        blocks = [{"type": "text", "text": fixture.action("talk").prompt_text(), "_meta": vendor}]
        answer = (await agent.finish_turn(agent.prompt(session, blocks, _meta={**vendor, **trace}))).answer
        failure = f"session/prompt with `_meta` gave {answer.summary}"
        fixture.notes.judge(38, answer.ok, "`_meta` is accepted", failure, answer.evidence)


async def end_of_input(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    if fixture.has_action("talk"):
        await fixture.run_action(agent, session, "talk")
    problem = await agent.close()
    fixture.notes.judge(36, not problem, "it exits when its input ends", problem)


FRAMING_CASES: Final = (
    AgentCase("invalid JSON", "`{oops`, then initialize", (21,), invalid_json),
    AgentCase(
        "JSON that is not a request",
        "an empty message and a number, then a request",
        (23,),
        json_without_request,
    ),
    AgentCase("batches", "`[]` and a batch, then a request", (31,), batches),
    AgentCase(
        "ids, unknown methods, notifications",
        "requests with various ids, unknown methods, unknown notifications",
        (7, 9, 11, 13, 15, 17, 19, 27, 29, 52, 56, 373, "schema"),
        ids_and_methods,
    ),
    AgentCase("params", "missing, wrong, null and additional members", (24, 26, 32, 40, 44), unusual_params),
    AgentCase("_meta", "vendor members and trace context on everything", (38, 46, 48), meta_members),
    AgentCase("the end of the input", "a turn, then the input is closed", (1, 36), end_of_input),
)


_SESSION_CAPABILITIES: Final = "sessionCapabilities"
CAPABILITY_METHODS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("session/load", {"sessionId": "nope", "cwd": "$cwd", "mcpServers": []}, "loadSession"),
    ("session/resume", {"sessionId": "nope", "cwd": "$cwd"}, f"{_SESSION_CAPABILITIES}.resume"),
    ("session/close", {"sessionId": "nope"}, f"{_SESSION_CAPABILITIES}.close"),
    ("session/list", {}, f"{_SESSION_CAPABILITIES}.list"),
    ("session/delete", {"sessionId": "nope"}, f"{_SESSION_CAPABILITIES}.delete"),
    ("session/fork", {"sessionId": "nope", "cwd": "$cwd"}, f"{_SESSION_CAPABILITIES}.fork"),
    ("session/archive", {"sessionId": "nope"}, f"{_SESSION_CAPABILITIES}.archive"),
    ("session/unarchive", {"sessionId": "nope"}, f"{_SESSION_CAPABILITIES}.archive"),
    ("session/status", {"sessionId": "nope"}, f"{_SESSION_CAPABILITIES}.status"),
    ("session/set_title", {"sessionId": "nope", "title": "x"}, f"{_SESSION_CAPABILITIES}.title"),
    ("auth/status", {}, "auth.status"),
    ("logout", {}, "auth.logout"),
    ("providers/list", {}, "providers"),
)
"""Methods that need a capability, with params without effect."""

_OTHER_VERSIONS: Final = (0, 2, 7, 65535)


async def minimal_client(fixture: AgentFixture) -> None:
    """`initialize` has only the version; the agent must accept it and send this client no requests."""
    agent = await fixture.launch()
    answer = await agent.initialize(rule=74)
    if not fixture.notes.judge(
        74, answer.ok, "it initializes", f"initialize gave {answer.summary}", answer.evidence
    ):
        return
    version = at(answer.result, "protocolVersion")
    fixture.notes.judge(
        62, version == 1, "version 1 gave 1", f"version 1 gave {answer.summary}", answer.evidence
    )
    info = at(answer.result, "agentInfo")
    named = isinstance(at(info, "name"), str) and isinstance(at(info, "version"), str)
    failure = "no `agentInfo` with name and version"
    fixture.notes.judge(
        67, named, f"it is {at(info, 'name')} {at(info, 'version')}", failure, [answer.line.evidence]
    )
    session = await fixture.new_session(agent)
    for action, values in (
        ("read", {"file": "notes.txt"}),
        ("write", {"file": "new.txt", "text": "x"}),
        ("run", {}),
    ):
        if fixture.has_action(action):
            await fixture.run_action(agent, session, action, **values)


async def other_versions(fixture: AgentFixture) -> None:
    for version in _OTHER_VERSIONS:
        agent = await fixture.launch(f"version {version}")
        answer = await agent.initialize({}, version=version, rule=63)
        answer_version = at(answer.result, "protocolVersion")
        passed = (
            isinstance(answer_version, int)
            and not isinstance(answer_version, bool)
            and (answer_version == 1 or answer_version == version == 2)
        )
        failure = f"{version} gave {answer.summary}; expected a version it speaks"
        fixture.notes.judge(63, passed, f"{version} gave {answer_version}", failure, answer.evidence)


async def invalid_versions(fixture: AgentFixture) -> None:
    agent = await fixture.launch()
    for version in ("1", True, 1.5, 70000):
        answer = await agent.initialize({}, version=version)
        failure = f"the version {version!r} gave {answer.summary}; expected an error"
        fixture.notes.judge(72, not answer.ok, f"{version!r} is refused", failure, answer.evidence)
    answer = await agent.initialize({}, rule=72)
    if not answer.ok and fixture.notes.for_rule(72)[-1].outcome == "pass":
        fixture.notes.add_fail(72, "after wrong versions it does not initialize", answer.evidence)


async def malformed_capabilities(fixture: AgentFixture) -> None:
    for capabilities in (False, {"fs": {"readTextFile": "yes"}, "terminal": 1}):
        agent = await fixture.launch()
        answer = await agent.initialize(capabilities, rule=70)
        failure = f"clientCapabilities {capabilities} gave {answer.summary}"
        if (
            not fixture.notes.judge(
                70, answer.ok, "it reads them as no capabilities", failure, answer.evidence
            )
            or not capabilities
        ):
            continue
        if fixture.has_action("read"):
            requests = await _read_requests(fixture, agent)
            agent.client_capabilities = ALL_CAPABILITIES  # judged here, not by the passive rules
            if requests and await _read_requests(fixture, await fixture.start_agent({})):
                reason = "it reads files without any capability, so it was not seen how it reads a wrong one"
                fixture.notes.add_unjudged(70, reason)
                continue
            failure = 'it reads `readTextFile: "yes"` as true'
            fixture.notes.judge(
                70, not requests, "it reads it as false", failure, [line.evidence for line in requests]
            )


async def _read_requests(fixture: AgentFixture, agent: AgentUnderTest) -> list[WireLine]:
    """The agent's requests to read files in a turn that needs one."""
    session = await fixture.new_session(agent)
    turn = await fixture.run_action(agent, session, "read", file="notes.txt")
    return turn.requests("fs/read_text_file")


async def requests_before_initialize(fixture: AgentFixture) -> None:
    agent = await fixture.launch()
    messages: tuple[tuple[str, Any], ...] = (
        ("session/new", {"cwd": fixture.cwd, "mcpServers": []}),
        ("session/list", {}),
    )
    for method, params in messages:
        answer = await agent.call(method, params, rule=73)
        if answer.ok:
            fixture.notes.add_fail(73, f"{method} before initialize gave a result", answer.evidence)
            continue
        if method == "session/new":
            fixture.notes.add_pass(73, f"{method} before initialize gave {answer.summary}", answer.evidence)
        passed = fixture.script.accepts_code(answer.code, -32600)
        failure = f"{method} before initialize gave {answer.summary}; expected -32600"
        reason = f"{answer.code} before initialize"
        fixture.notes.judge(386, passed, reason, failure, answer.evidence)
    answer = await agent.initialize({}, rule=386)
    failure = f"after early requests initialize gave {answer.summary}"
    fixture.notes.judge(386, answer.ok, "initialize works afterwards", failure, answer.evidence)


async def advertised_methods(fixture: AgentFixture) -> None:
    agent = await fixture.start_agent()
    rows = [
        _call_case(agent, method, params, capability) for method, params, capability in CAPABILITY_METHODS
    ]
    await check_calls(agent, sorted(rows, key=lambda row: row.method == "logout"), cwd=fixture.cwd)
    if not any(row.rule == 66 for row in rows):
        raise CaseUnavailable("it advertises every capability")


def _call_case(agent: AgentUnderTest, method: str, params: Any, capability: str) -> CallCase:
    return (
        CallCase(65, method, params, "known")
        if agent.advertises(capability)
        else CallCase(66, method, params, -32601)
    )


HANDSHAKE_CASES: Final = (
    AgentCase(
        "a minimal client",
        "initialize with only the version, then tools",
        (62, 67, 68, 74),
        minimal_client,
    ),
    AgentCase("other versions", "initialize with 0, 2, 7 and 65535", (63,), other_versions),
    AgentCase("invalid versions", 'initialize with "1", true, 1.5 and 70000', (72,), invalid_versions),
    AgentCase(
        "malformed capabilities",
        "capabilities of wrong types, then a tool that reads",
        (70,),
        malformed_capabilities,
    ),
    AgentCase(
        "requests before initialize",
        "session/new and session/list before initialize",
        (73, 386),
        requests_before_initialize,
    ),
    AgentCase(
        "advertised methods", "every method that needs a capability is called", (65, 66), advertised_methods
    ),
)


_AUTH_REQUIRED: Final = -32000


async def login_offers(fixture: AgentFixture) -> None:
    """Initialize a client with terminal logins and one without."""
    full = await fixture.start_agent(login=False)
    limited = await fixture.start_agent(capabilities_without("auth"), login=False)
    methods = listed(full.initialize_result, "authMethods")
    if not methods:
        for rule in (76, 77, 85):
            fixture.notes.add_not_applicable(rule, "it has no auth methods")
    elif not any(at(one, "type") == "terminal" for one in methods):
        fixture.notes.add_not_applicable(77, "it has no terminal login")
    if methods:
        answer = await limited.call("authenticate", {"methodId": "nope"})
        failure = f"authenticate with `nope` gave {answer.summary}"
        fixture.notes.judge(85, not answer.ok, "an unknown method is refused", failure, answer.evidence)
        if not answer.ok:
            passed = fixture.script.accepts_code(answer.code, -32602)
            failure = f"authenticate with `nope` gave {answer.summary}; expected -32602"
            fixture.notes.judge(387, passed, f"unknown values give {answer.code}", failure, answer.evidence)


async def sign_in_and_out(fixture: AgentFixture) -> None:
    agent = await fixture.start_agent(login=False)
    first = await agent.new_session(fixture.cwd)
    if first.ok:
        for rule in (82, 83, 87):
            fixture.notes.add_not_applicable(rule, "sessions need no login")
        return
    if not fixture.script.login:
        raise CaseUnavailable("sessions need a login, and the script names none")
    login = await agent.call("authenticate", {"methodId": fixture.script.login})
    second = await agent.new_session(fixture.cwd)
    worked = login.ok and second.ok
    failure = f"authenticate gave {login.summary}, then session/new {second.summary}"
    # Rule 34, a passive rule, checks that the result is an object.
    fixture.notes.judge(
        82, worked, "sessions work after sign-in", failure, (*login.evidence, second.line.evidence)
    )
    if not second.ok:
        return
    failure = f"session/new before the login gave {first.summary}; expected {_AUTH_REQUIRED}"
    fixture.notes.judge(
        83, first.code == _AUTH_REQUIRED, "it reports that a login is required", failure, first.evidence
    )
    if not agent.advertises("auth.logout"):
        fixture.notes.add_not_applicable(87, "it does not advertise auth.logout")
        return
    logout = await agent.call("logout", ABSENT)
    fixture.notes.judge(
        26, logout.ok, "logout without params works", f"logout gave {logout.summary}", logout.evidence
    )
    third = await agent.new_session(fixture.cwd)
    failure = f"session/new after logout gave {third.summary}; expected {_AUTH_REQUIRED}"
    fixture.notes.judge(
        87, third.code == _AUTH_REQUIRED, "a login is required again", failure, third.evidence
    )


async def auth_status(fixture: AgentFixture) -> None:
    agent = await fixture.start_agent(login=False)
    before = await agent.new_session(fixture.cwd)
    answer = await agent.call("auth/status", {})
    after = await agent.new_session(fixture.cwd)
    passed = answer.ok and (before.ok == after.ok)
    failure = f"auth/status gave {answer.summary}, and session/new then {after.summary}"
    if not answer.ok or answer.code == _AUTH_REQUIRED or before.ok != after.ok:
        fixture.notes.judge(358, passed, "", failure, answer.evidence)
    else:
        fixture.notes.add_pass(358, "it returns the status and changes nothing", answer.evidence)
    if not fixture.script.login:
        raise CaseUnavailable("the script names no login")
    await agent.call("authenticate", {"methodId": fixture.script.login})
    if agent.advertises("auth.logout"):
        await agent.call("logout", {})
    await agent.ping()


LOGIN_CASES: Final = (
    AgentCase(
        "offered logins",
        "clients with and without terminal logins",
        (76, 77, 85, 387),
        login_offers,
    ),
    AgentCase(
        "signing in and out",
        "session/new, authenticate, session/new, logout, session/new",
        (34, 82, 83, 87),
        sign_in_and_out,
    ),
    AgentCase(
        "auth status", "auth/status, sign in, sign out", (358, 359, 360, 361), auth_status, "auth.status"
    ),
)


CASES: Final = (
    *FRAMING_CASES,
    *HANDSHAKE_CASES,
    *LOGIN_CASES,
)
