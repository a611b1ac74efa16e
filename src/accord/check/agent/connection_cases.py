"""Cases: framing, envelopes, `initialize`, sign-in."""

from typing import Any, Final

from accord.check.agent.agent_fixture import (
    ALL_CAPABILITIES,
    AgentCases,
    AgentFixture,
    CallCase,
    capabilities_without,
    check_calls,
)
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.checked_connection import ABSENT, CallAnswer
from accord.check.findings import CaseUnavailable, RuleId
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine

case: Final = AgentCases()


_REQUEST_IDS: Final = (0, -7, "a-1", 9007199254740991, "", "0")

_PARAM_CALLS: Final = (
    CallCase("framing.agent-invalid-params", "session/new", {"mcpServers": []}, -32602),
    CallCase("framing.agent-invalid-params", "session/new", {"cwd": 5, "mcpServers": []}, -32602),
    CallCase("framing.agent-invalid-params", "session/prompt", {"sessionId": "$session"}, -32602),
    CallCase(
        "framing.agent-invalid-params", "session/prompt", {"prompt": [{"type": "text", "text": "hi"}]}, -32602
    ),
    CallCase(
        "framing.agent-extra-members", "session/new", {"cwd": "$cwd", "mcpServers": [], "zzz": 1}, "result"
    ),
    CallCase(
        "extension.agent-malformed-meta",
        "session/new",
        {"cwd": "$cwd", "mcpServers": [], "_meta": "x"},
        "result",
    ),
    CallCase("framing.absent-params", "session/list", ABSENT, "result", "sessionCapabilities.list"),
    CallCase("framing.absent-params", "session/list", None, "result", "sessionCapabilities.list"),
)


async def check_refusal(agent: AgentUnderTest, line: str, rule: RuleId, code: int) -> None:
    """Send a line that is not a request; the agent must answer with an error without id, and continue."""
    sent = agent.send(line)
    if agent.initialize_result:
        await agent.ping(rule=rule)
    elif not (await agent.initialize(rule=rule)).ok:
        agent.notes.add_fail(rule, f"after {line!r} it does not answer initialize", sent)
        return
    answers = answers_without_id(agent, sent)
    found = [one for one in answers if isinstance(one.message, dict) and _error_code(one) == code]
    frames = [sent, *answers]
    failure = f"after {line} the agent {_describe_answers(answers)}; expected {code}"
    agent.notes.judge(rule, bool(found), f"{line} gave {code}", failure, *frames)


def answers_without_id(agent: AgentUnderTest, since: WireLine) -> list[WireLine]:
    return [
        line
        for line in agent.lines[since.number :]
        if line.sender == "agent" and line.is_answer and line.id is None
    ]


def _error_code(line: WireLine) -> object:
    return at(line.message, "error", "code")


def _describe_answers(answers: list[WireLine]) -> str:
    return f"answered {_error_code(answers[0])}" if answers else "did not answer"


@case("framing.agent-survives-invalid-json")
async def invalid_json(fixture: AgentFixture) -> None:
    """Invalid JSON: `{oops`, then initialize."""
    agent = await fixture.launch()
    await check_refusal(agent, "{oops", "framing.agent-survives-invalid-json", -32700)


@case("framing.survives-invalid-request")
async def json_without_request(fixture: AgentFixture) -> None:
    """JSON that is not a request: an empty message and a number, then a request."""
    rule = "framing.survives-invalid-request"
    agent = await fixture.launch()
    await agent.initialize()
    await check_refusal(agent, '{"jsonrpc":"2.0"}', rule, -32600)
    await check_refusal(agent, "5", rule, -32600)


@case("framing.survives-batch")
async def batches(fixture: AgentFixture) -> None:
    """Batches: `[]` and a batch, then a request."""
    rule = "framing.survives-batch"
    agent = await fixture.launch()
    await agent.initialize()
    agent.send("[]")
    await agent.ping(rule=rule)
    agent.send('[{"jsonrpc":"2.0","id":"in-a-batch","method":"_check/x","params":{}}]')
    answer = await agent.ping(rule=rule)
    fixture.add_pass(rule, "it continues after a batch", answer)


_UNKNOWN_METHODS: Final = (
    CallCase("framing.agent-unknown-method", "nope/nope", {}, -32601),
    CallCase("framing.agent-unknown-extension", "_test/x", {}, -32601),
    CallCase("proxy.refused-by-agents", "proxy/initialize", {"method": "x"}, -32601),
    CallCase("proxy.refused-by-agents", "proxy/successor", {"method": "x"}, -32601),
)


@case(
    "framing.agent-jsonrpc-member framing.agent-returns-id framing.agent-one-answer "
    "framing.agent-silent-on-notification framing.agent-unknown-method framing.agent-unknown-extension "
    "framing.agent-unknown-notification framing.agent-error-members framing.agent-no-batch "
    "cancel-request.agent-unknown-id cancel-request.agent-other-notification proxy.refused-by-agents "
    "schema"
)
async def ids_and_methods(fixture: AgentFixture) -> None:
    """Ids, unknown methods, notifications: requests with various ids, unknown methods,
    unknown notifications.
    """
    rule = "framing.agent-returns-id"
    agent, session = await fixture.open_session()
    for id in _REQUEST_IDS:
        answer = await agent.call("_check/id", {}, id=id, rule=rule)
        returned = answer.line.id is not None
        failure = f"the id {id!r} gave {answer.summary}, without the id"
        fixture.judge(rule, returned, f"the id {id!r} was returned", failure, answer)
    answers = await check_calls(agent, _UNKNOWN_METHODS)
    await _check_notifications(fixture, agent, session, answers[-1].request.id)


async def _check_notifications(
    fixture: AgentFixture, agent: AgentUnderTest, session: str, answered_id: object
) -> None:
    messages: tuple[tuple[RuleId, str, Any], ...] = (
        ("framing.agent-silent-on-notification", "session/cancel", {"sessionId": session}),
        ("framing.agent-silent-on-notification", "_x/ping", {}),
        ("framing.agent-unknown-notification", "_test/n", {"a": 1}),
        ("cancel-request.agent-unknown-id", "$/cancel_request", {"requestId": 9999}),
        ("cancel-request.agent-unknown-id", "$/cancel_request", {"requestId": answered_id}),
        ("cancel-request.agent-other-notification", "$/progress", {"token": 1}),
    )
    for rule, method, params in messages:
        sent = agent.notify(method, params)
        answer = await agent.ping(rule=rule)
        replies = answers_without_id(agent, sent)
        broken_rule = (
            rule
            if rule in ("framing.agent-silent-on-notification", "cancel-request.agent-unknown-id")
            else "framing.agent-silent-on-notification"
        )
        if replies:
            failure = f"the notification {method} was answered"
            fixture.add_fail(broken_rule, failure, sent, replies[0])
        else:
            fixture.add_pass("framing.agent-silent-on-notification", "notifications are not answered", sent)
            fixture.add_pass(rule, f"{method} changed nothing", sent, answer.line)


@case(
    "framing.agent-invalid-params framing.absent-params framing.agent-extra-members "
    "extension.agent-malformed-meta extension.agent-known-methods"
)
async def unusual_params(fixture: AgentFixture) -> None:
    """Params: missing, wrong, null and additional members."""
    agent, session = await fixture.open_session()
    await check_calls(agent, _PARAM_CALLS, session=session, cwd=fixture.cwd)


@case("extension.agent-accepts-meta extension.agent-announced extension.trace-context")
async def meta_members(fixture: AgentFixture) -> None:
    """_meta: vendor members and trace context on everything."""
    # Send vendor `_meta` and trace context with all requests; none may fail because of it.
    rule = "extension.agent-accepts-meta"
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
        fixture.judge(rule, answer.ok, "`_meta` is accepted", failure, answer)
    session = at(answers[-1].result, "sessionId")
    if isinstance(session, str) and fixture.has_action("talk"):
        await fixture.require_plain_turn(agent, session)
        blocks = [{"type": "text", "text": fixture.action("talk").prompt_text(), "_meta": vendor}]
        answer = (await agent.finish_turn(agent.prompt(session, blocks, _meta={**vendor, **trace}))).answer
        failure = f"session/prompt with `_meta` gave {answer.summary}"
        fixture.judge(rule, answer.ok, "`_meta` is accepted", failure, answer)


@case("framing.agent-only-messages framing.exits-at-end-of-input")
async def end_of_input(fixture: AgentFixture) -> None:
    """The end of the input: a turn, then the input is closed."""
    agent, session = await fixture.open_session()
    if fixture.has_action("talk"):
        await fixture.run_action(agent, session, "talk")
    problem = await agent.close()
    fixture.judge("framing.exits-at-end-of-input", not problem, "it exits when its input ends", problem)


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


@case(
    "initialize.version-returned initialize.agent-info initialize.missing-client-capability "
    "initialize.minimal-client"
)
async def minimal_client(fixture: AgentFixture) -> None:
    """A minimal client: initialize with only the version, then tools."""
    # `initialize` has only the version; the agent must accept it and send this client no requests.
    rule = "initialize.minimal-client"
    agent = await fixture.launch()
    answer = await agent.initialize(rule=rule)
    if not fixture.judge(rule, answer.ok, "it initializes", f"initialize gave {answer.summary}", answer):
        return
    version = at(answer.result, "protocolVersion")
    failure = f"version 1 gave {answer.summary}"
    fixture.judge("initialize.version-returned", version == 1, "version 1 gave 1", failure, answer)
    info = at(answer.result, "agentInfo")
    named = isinstance(at(info, "name"), str) and isinstance(at(info, "version"), str)
    failure = "no `agentInfo` with name and version"
    reason = f"it is {at(info, 'name')} {at(info, 'version')}"
    fixture.judge("initialize.agent-info", named, reason, failure, answer.line)
    session = await fixture.new_session(agent)
    for action, values in (
        ("read", {"file": "notes.txt"}),
        ("write", {"file": "new.txt", "text": "x"}),
        ("run", {}),
    ):
        if fixture.has_action(action):
            await fixture.run_action(agent, session, action, **values)


def _speaks_only_newer(answer: CallAnswer, version: int) -> bool:
    """Whether the agent refused a version below all of its own, as version 2 asks."""
    supported = listed(answer.line.message, "error", "data", "supported")
    return (
        answer.code == -32022
        and bool(supported)
        and all(isinstance(v, int) and v > version for v in supported)
    )


@case("initialize.version-offered")
async def other_versions(fixture: AgentFixture) -> None:
    """Other versions: initialize with 0, 2, 7 and 65535."""
    rule = "initialize.version-offered"
    for version in _OTHER_VERSIONS:
        agent = await fixture.launch(f"version {version}")
        answer = await agent.initialize({}, version=version, rule=rule)
        answer_version = at(answer.result, "protocolVersion")
        passed = (
            isinstance(answer_version, int)
            and not isinstance(answer_version, bool)
            and (answer_version == 1 or answer_version == version == 2)
        ) or _speaks_only_newer(answer, version)
        failure = f"{version} gave {answer.summary}; expected a version it speaks"
        fixture.judge(rule, passed, f"{version} gave {answer_version}", failure, answer)


@case("initialize.invalid-version")
async def invalid_versions(fixture: AgentFixture) -> None:
    """Invalid versions: initialize with "1", true, 1.5 and 70000."""
    rule = "initialize.invalid-version"
    agent = await fixture.launch()
    for version in ("1", True, 1.5, 70000):
        answer = await agent.initialize({}, version=version)
        failure = f"the version {version!r} gave {answer.summary}; expected an error"
        fixture.judge(rule, not answer.ok, f"{version!r} is refused", failure, answer)
    answer = await agent.initialize({}, rule=rule)
    if not answer.ok and fixture.notes.for_rule(rule)[-1].outcome == "pass":
        fixture.add_fail(rule, "after wrong versions it does not initialize", answer)


@case("initialize.agent-malformed-capability")
async def malformed_capabilities(fixture: AgentFixture) -> None:
    """Malformed capabilities: capabilities of wrong types, then a tool that reads."""
    rule = "initialize.agent-malformed-capability"
    for capabilities in (False, {"fs": {"readTextFile": "yes"}, "terminal": 1}):
        agent = await fixture.launch()
        answer = await agent.initialize(capabilities, rule=rule)
        failure = f"clientCapabilities {capabilities} gave {answer.summary}"
        if (
            not fixture.judge(rule, answer.ok, "it reads them as no capabilities", failure, answer)
            or not capabilities
        ):
            continue
        if fixture.has_action("read"):
            requests = await _read_requests(fixture, agent)
            agent.client_capabilities = ALL_CAPABILITIES  # judged here, not by the passive rules
            if requests and await _read_requests(fixture, await fixture.start_agent({})):
                reason = "it reads files without any capability, so it was not seen how it reads a wrong one"
                fixture.add_unjudged(rule, reason)
                continue
            failure = 'it reads `readTextFile: "yes"` as true'
            fixture.judge(rule, not requests, "it reads it as false", failure, *requests)


async def _read_requests(fixture: AgentFixture, agent: AgentUnderTest) -> list[WireLine]:
    """The agent's requests to read files in a turn that needs one."""
    session = await fixture.new_session(agent)
    turn = await fixture.run_action(agent, session, "read", file="notes.txt")
    return turn.requests("fs/read_text_file")


@case("initialize.refuses-earlier-requests accord.request-before-initialize")
async def requests_before_initialize(fixture: AgentFixture) -> None:
    """Requests before initialize: session/new and session/list before initialize."""
    rule = "initialize.refuses-earlier-requests"
    agent = await fixture.launch()
    messages: tuple[tuple[str, Any], ...] = (
        ("session/new", {"cwd": fixture.cwd, "mcpServers": []}),
        ("session/list", {}),
    )
    for method, params in messages:
        answer = await agent.call(method, params, rule=rule)
        if answer.ok:
            fixture.add_fail(rule, f"{method} before initialize gave a result", answer)
            continue
        if method == "session/new":
            fixture.add_pass(rule, f"{method} before initialize gave {answer.summary}", answer)
        passed = fixture.script.accepts_code(answer.code, -32600)
        failure = f"{method} before initialize gave {answer.summary}; expected -32600"
        reason = f"{answer.code} before initialize"
        fixture.judge("accord.request-before-initialize", passed, reason, failure, answer)
    answer = await agent.initialize({}, rule="accord.request-before-initialize")
    failure = f"after early requests initialize gave {answer.summary}"
    fixture.judge(
        "accord.request-before-initialize", answer.ok, "initialize works afterwards", failure, answer
    )


@case("initialize.advertised-methods initialize.unadvertised-methods")
async def advertised_methods(fixture: AgentFixture) -> None:
    """Advertised methods: every method that needs a capability is called."""
    agent = await fixture.start_agent()
    rows = [
        _call_case(agent, method, params, capability) for method, params, capability in CAPABILITY_METHODS
    ]
    await check_calls(agent, sorted(rows, key=lambda row: row.method == "logout"), cwd=fixture.cwd)
    if not any(row.rule == "initialize.unadvertised-methods" for row in rows):
        raise CaseUnavailable("it advertises every capability")


def _call_case(agent: AgentUnderTest, method: str, params: Any, capability: str) -> CallCase:
    return (
        CallCase("initialize.advertised-methods", method, params, "known")
        if agent.advertises(capability)
        else CallCase("initialize.unadvertised-methods", method, params, -32601)
    )


_AUTH_REQUIRED: Final = -32000


@case("auth.method-ids auth.terminal-method-needs-capability auth.unknown-method accord.unknown-value")
async def login_offers(fixture: AgentFixture) -> None:
    """Offered logins: clients with and without terminal logins."""
    full = await fixture.start_agent(login=False)
    limited = await fixture.start_agent(capabilities_without("auth"), login=False)
    methods = listed(full.initialize_result, "authMethods")
    if not methods:
        fixture.add_not_applicable(
            "auth.method-ids auth.terminal-method-needs-capability auth.unknown-method",
            "it has no auth methods",
        )
    elif not any(at(one, "type") == "terminal" for one in methods):
        fixture.add_not_applicable("auth.terminal-method-needs-capability", "it has no terminal login")
    if methods:
        answer = await limited.call("authenticate", {"methodId": "nope"})
        failure = f"authenticate with `nope` gave {answer.summary}"
        fixture.judge("auth.unknown-method", not answer.ok, "an unknown method is refused", failure, answer)
        if not answer.ok:
            passed = fixture.script.accepts_code(answer.code, -32602)
            failure = f"authenticate with `nope` gave {answer.summary}; expected -32602"
            fixture.judge(
                "accord.unknown-value", passed, f"unknown values give {answer.code}", failure, answer
            )


@case("framing.agent-empty-results auth.authenticate auth.required-error auth.logout-requires-login")
async def sign_in_and_out(fixture: AgentFixture) -> None:
    """Signing in and out: session/new, authenticate, session/new, logout, session/new."""
    rule = "auth.logout-requires-login"
    agent = await fixture.start_agent(login=False)
    first = await agent.new_session(fixture.cwd)
    if first.ok:
        fixture.add_not_applicable(
            "auth.authenticate auth.required-error auth.logout-requires-login", "sessions need no login"
        )
        return
    if not fixture.script.login:
        raise CaseUnavailable("sessions need a login, and the script names none")
    login = await agent.call("authenticate", {"methodId": fixture.script.login})
    second = await agent.new_session(fixture.cwd)
    worked = login.ok and second.ok
    failure = f"authenticate gave {login.summary}, then session/new {second.summary}"
    # A passive rule checks that the result is an object.
    fixture.judge("auth.authenticate", worked, "sessions work after sign-in", failure, login, second.line)
    if not second.ok:
        return
    failure = f"session/new before the login gave {first.summary}; expected {_AUTH_REQUIRED}"
    reason = "it reports that a login is required"
    fixture.judge("auth.required-error", first.code == _AUTH_REQUIRED, reason, failure, first)
    if not agent.advertises("auth.logout"):
        fixture.add_not_applicable(rule, "it does not advertise auth.logout")
        return
    logout = await agent.call("logout", ABSENT)
    failure = f"logout gave {logout.summary}"
    fixture.judge("framing.absent-params", logout.ok, "logout without params works", failure, logout)
    third = await agent.new_session(fixture.cwd)
    failure = f"session/new after logout gave {third.summary}; expected {_AUTH_REQUIRED}"
    fixture.judge(rule, third.code == _AUTH_REQUIRED, "a login is required again", failure, third)


@case(
    "auth-status.changes-nothing auth-status.members auth-status.update-advertised "
    "auth-status.update-only-changes",
    "auth.status",
)
async def auth_status(fixture: AgentFixture) -> None:
    """Auth status: auth/status, sign in, sign out."""
    rule = "auth-status.changes-nothing"
    agent = await fixture.start_agent(login=False)
    before = await agent.new_session(fixture.cwd)
    answer = await agent.call("auth/status", {})
    after = await agent.new_session(fixture.cwd)
    passed = answer.ok and (before.ok == after.ok)
    failure = f"auth/status gave {answer.summary}, and session/new then {after.summary}"
    if not answer.ok or answer.code == _AUTH_REQUIRED or before.ok != after.ok:
        fixture.judge(rule, passed, "", failure, answer)
    else:
        fixture.add_pass(rule, "it returns the status and changes nothing", answer)
    if not fixture.script.login:
        raise CaseUnavailable("the script names no login")
    await agent.call("authenticate", {"methodId": fixture.script.login})
    if agent.advertises("auth.logout"):
        await agent.call("logout", {})
    await agent.ping()
