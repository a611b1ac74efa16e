"""Cases: `initialize`, sign-in, envelopes, ids, lines that are not messages."""

from typing import Any, Final, cast

from accord.check.checked_connection import ConnectionOver, Reply, WireLine, error_reply, result_reply
from accord.check.client.agent_responder import ALL_CAPABILITIES
from accord.check.client.client_fixture import ANSWER_TEXT, ClientCase, ClientFixture, ClientTurn, tail
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.client.user_decision_cases import permission_params
from accord.check.findings import RuleId
from accord.trace.trace_steps import at, listed

TWO_LINE_PROMPT: Final = "Say hello,\nin two lines: 你好 👋🏽"


async def plain_turn(fixture: ClientFixture) -> None:
    turn = await fixture.start_turn(prompt=TWO_LINE_PROMPT)
    if fixture.can_choose_prompt:
        prompt_text = "".join(
            str(at(block, "text"))
            for block in listed(turn.prompt.params, "prompt")
            if at(block, "type") == "text"
        )
        arrived = TWO_LINE_PROMPT.replace("\n", "") in prompt_text.replace("\n", "").replace("\r", "")
        failure = f"the prompt arrived as {prompt_text!r}"
        fixture.notes.judge(6, arrived, "non-ASCII text arrived", failure, [turn.prompt.evidence])
        passed = "\n" in prompt_text
        fixture.notes.judge(
            4, passed, "a two-line prompt was sent in one line", failure, [turn.prompt.evidence]
        )
    turn.client.update("agent_thought_chunk", content={"type": "text", "text": "thinking"})
    await fixture.finish_turn(turn, ANSWER_TEXT)


async def minimal_agent(fixture: ClientFixture) -> None:
    fixture.responder.initialize_result = {"protocolVersion": 1}
    fixture.responder.unadvertised_rule = 69
    turn = await fixture.start_turn(rule=75)
    fixture.notes.add_pass(75, "it continued", [turn.prompt.evidence])
    await fixture.finish_turn(turn, ANSWER_TEXT)
    fixture.notes.add_pass(69, "only advertised features were used", [turn.prompt.evidence])


async def unsupported_features(fixture: ClientFixture) -> None:
    """Request every optional feature of the script from an agent that advertises none."""
    fixture.responder.initialize_result = {"protocolVersion": 1}
    fixture.responder.unadvertised_rule = 69
    for action, values in (
        ("session", {"session": "old"}),
        ("newest", {}),
        ("roots", {}),
        ("servers", {}),
        ("delete", {"session": "old"}),
    ):
        if fixture.has_action(action):
            await fixture.try_turn(action, **values)
            fixture.notes.add_pass(69, f"the feature ({action}) was not used", [])


async def invalid_capabilities(fixture: ClientFixture) -> None:
    fixture.responder.initialize_result = {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": "yes",
            "sessionCapabilities": False,
            "promptCapabilities": {"image": 1},
        },
        "agentInfo": {"name": "accord-check", "version": "1"},
    }
    fixture.responder.unadvertised_rule = 71
    turn = await fixture.start_turn(rule=71)
    fixture.notes.add_pass(71, "it ignored them", [turn.prompt.evidence])
    await fixture.finish_turn(turn, ANSWER_TEXT)


async def other_version(fixture: ClientFixture) -> None:
    fixture.responder.initialize_result = {**fixture.responder.initialize_result, "protocolVersion": 9}
    await fixture.start()
    client = await fixture.wait_for_connection()
    closed = await client.wait_for_close(fixture.timeouts.soon)
    later_calls = [
        line
        for line in client.lines
        if line.sender == "client" and line.method and line.method != "initialize"
    ]
    if later_calls:
        fixture.notes.add_fail(64, f"it continued with {later_calls[0].method}", [later_calls[0].evidence])
    elif not closed:
        fixture.notes.add_fail(64, "it neither continued nor closed", [client.lines[-1].evidence])
    else:
        await fixture.wait_for_exit()
        has_output = bool(fixture.process.output.strip())
        fixture.notes.judge(
            64, has_output, f"output: {tail(fixture.process.output, 120)}", "it closed without a message"
        )


INITIALIZE_CASES: Final = (
    ClientCase(
        "a plain turn",
        "a two-line prompt with non-ASCII text, a thought, text, the end",
        (2, 4, 6, 8, 30, 43, 45, 47, 58, 59, 60, 61, 90, 91, "schema"),
        plain_turn,
    ),
    ClientCase("a minimal agent", "initialize answers with the version alone", (69, 75), minimal_agent),
    ClientCase(
        "unsupported features",
        "the session, newest, roots, servers and delete actions, for an agent without capabilities",
        (69,),
        unsupported_features,
    ),
    ClientCase("invalid capabilities", "capabilities of wrong types", (71,), invalid_capabilities),
    ClientCase("another version", "initialize answers version 9", (64,), other_version),
)


_LOGIN_VARIABLE: Final = "value-for-the-login"
_AGENT_METHOD: Final[dict[str, Any]] = {"id": "agent-login", "name": "Check agent login"}
_TERMINAL_METHOD: Final[dict[str, Any]] = {
    "type": "terminal",
    "id": "terminal-login",
    "name": "Terminal login",
    "args": ["--login"],
    "env": {"ACCORD_CHECK_LOGIN": _LOGIN_VARIABLE},
}
_INVALID_METHOD: Final[dict[str, Any]] = {
    "type": "terminal",
    "id": "invalid-login",
    "name": "Invalid login",
    "args": "--login",
}


def _require_login(fixture: ClientFixture, *methods: dict[str, Any]) -> None:
    """Make `session/new` require a login."""
    fixture.responder.initialize_result = {
        **fixture.responder.initialize_result,
        "authMethods": list(methods),
    }
    signed_in = False

    def authenticate(line: WireLine) -> Reply:
        nonlocal signed_in
        signed_in = at(line.params, "methodId") == _AGENT_METHOD["id"]
        return result_reply({}) if signed_in else error_reply(-32602, "Unknown method")

    def new_session(_: WireLine) -> Reply:
        return (
            result_reply({"sessionId": fixture.responder.session})
            if signed_in or fixture.logins
            else error_reply(-32000, "Authentication required")
        )

    fixture.responder.overrides |= {"authenticate": authenticate, "session/new": new_session}


async def _try_turn_with_login(fixture: ClientFixture) -> ClientUnderTest:
    """Start the client, wait for `session/new`, and end its turn if it sends a prompt."""
    await fixture.start()
    client = await fixture.wait_for_connection()
    request = await client.wait_for_call("session/new")
    if request is None:
        return client
    prompt = await client.wait_for_call("session/prompt", timeout=fixture.timeouts.soon)
    if prompt is not None:
        client.end_turn(prompt)
    await fixture.wait_for_exit()
    return client


def _method_ids(client: ClientUnderTest) -> list[Any]:
    return [at(line.params, "methodId") for line in client.calls("authenticate")]


async def sign_in_required(fixture: ClientFixture) -> None:
    _require_login(fixture, _AGENT_METHOD)
    client = await _try_turn_with_login(fixture)
    calls = client.calls("session/new")
    second = _AGENT_METHOD["id"] in _method_ids(client) and len(calls) > 1
    offered = second or _AGENT_METHOD["name"] in fixture.process.output
    failure = f"it neither signed in nor said how; output: {tail(fixture.process.output)}"
    pass_reason = "it signed in and tried again" if second else "it says how to sign in"
    fixture.notes.judge(84, offered, pass_reason, failure, [line.evidence for line in calls[:1]])
    if _method_ids(client):
        passed = _AGENT_METHOD["id"] in _method_ids(client)
        fixture.notes.judge(
            81, passed, "it signed in with the agent's method", "it signed in with another method id", []
        )
    elif offered:
        fixture.notes.add_pass(81, "it shows the agent's method")
    else:
        fixture.notes.add_not_shown(81, "it did not sign in")


async def terminal_login(fixture: ClientFixture) -> None:
    """The only login is at a terminal: the client must start the login, then connect again."""
    _require_login(fixture, _TERMINAL_METHOD)
    await fixture.start()
    client = await fixture.wait_for_connection()
    await client.wait_for_call("session/new")
    try:
        second = await fixture.wait_for_connection(2)
    except ConnectionOver:
        second = None
    if second is not None:
        prompt = await second.wait_for_call("session/prompt", timeout=fixture.timeouts.soon)
        if prompt is not None:
            second.end_turn(prompt)
    await fixture.wait_for_exit()
    calls = [line for connection in fixture.connections for line in connection.calls("authenticate")]
    frames = [line.evidence for line in calls if at(line.params, "methodId") == _TERMINAL_METHOD["id"]]
    fixture.notes.judge(
        79, not frames, "it was not passed to authenticate", "it was passed to authenticate", frames
    )
    _judge_terminal_login(fixture, second)


def _judge_terminal_login(fixture: ClientFixture, second: ClientUnderTest | None) -> None:
    if not fixture.logins:
        fixture.notes.add_not_shown(80, "it did not start the login; that may need a user")
        return
    pipe = fixture.logins[0]
    login_complete = list(pipe.arguments) == _TERMINAL_METHOD["args"] and pipe.login == _LOGIN_VARIABLE
    failure = f"the login was started with {list(pipe.arguments)} and the variable {pipe.login!r}"
    if fixture.notes.judge(80, login_complete, "with its arguments and variable", failure):
        connected_again = second is not None and bool(second.calls("initialize"))
        fixture.notes.judge(
            80, connected_again, "then it connected again", "it did not connect again after the login"
        )


async def invalid_auth_method(fixture: ClientFixture) -> None:
    _require_login(fixture, _INVALID_METHOD, _AGENT_METHOD)
    client = await _try_turn_with_login(fixture)
    frames = [line.evidence for line in client.calls("authenticate")]
    if _INVALID_METHOD["id"] in _method_ids(client):
        fixture.notes.add_fail(329, "an invalid method was passed to authenticate", frames)
    elif _AGENT_METHOD["id"] in _method_ids(client) or _AGENT_METHOD["name"] in fixture.process.output:
        fixture.notes.add_pass(329, "only the valid method is offered or used")
    elif client.calls("session/new"):
        fixture.notes.add_not_shown(329, "it neither signed in nor said how")
    else:
        fixture.notes.add_fail(329, "one invalid method made it stop", [client.lines[-1].evidence])


async def signed_out_in_turn(fixture: ClientFixture) -> None:
    turn = await fixture.start_turn()
    turn.client.reply(turn.prompt, error_reply(-32000, "Authentication required"))
    ended = await fixture.wait_for_exit()
    exit = fixture.process.exit
    if not fixture.traits.exits_after_turn:
        answer = await turn.client.ping(rule=88)
        fixture.notes.add_pass(88, "it continues", answer.evidence)
        return
    crashed = exit is not None and exit.signal is not None
    failure = "it hangs" if not ended else f"it {exit}: {tail(fixture.process.output)}"
    passed = ended and not crashed and "Traceback" not in fixture.process.output
    fixture.notes.judge(88, passed, "the turn ended with an error", failure)


LOGIN_CASES: Final = (
    ClientCase("sign-in required", "session/new fails until sign-in", (81, 84), sign_in_required),
    ClientCase("login at a terminal", "the only method is of type terminal", (79, 80), terminal_login),
    ClientCase(
        "an invalid auth method",
        "a terminal method with invalid args, and a valid method",
        (329,),
        invalid_auth_method,
    ),
    ClientCase("signed out in a turn", "the prompt fails with -32000", (88,), signed_out_in_turn),
)


_VENDOR_META: Final = {"example.com/x": {"a": [1]}}
_META_TEXT: Final = "TextWithMeta"


async def ids_and_params(fixture: ClientFixture) -> None:
    turn = await fixture.start_turn()
    client = turn.client
    for id in (0, "perm_1", -7, 9007199254740991, "", "0"):
        answer = await client.call("session/request_permission", permission_params(client), id=id, rule=10)
        fixture.notes.add_pass(10, f"the id {id!r} was returned", answer.evidence)
    for rule, method in ((16, "nope/nope"), (18, "_test/x")):
        answer = await client.call(method, {}, rule=rule)
        failure = f"{method} gave {answer.summary}; expected -32601"
        fixture.notes.judge(rule, answer.code == -32601, f"{method} gave -32601", failure, answer.evidence)
    await _check_bad_params(fixture, client)
    await fixture.finish_turn(turn, ANSWER_TEXT)


async def _check_bad_params(fixture: ClientFixture, client: ClientUnderTest) -> None:
    messages: list[tuple[str, Any]] = [
        ("session/request_permission", {"sessionId": client.responder.session, "options": []}),
        ("session/request_permission", {"toolCall": {"toolCallId": "c"}, "options": []}),
    ]
    if client.advertises("fs.readTextFile"):
        messages.append(("fs/read_text_file", {"sessionId": client.responder.session}))
        messages.append(("fs/read_text_file", {"sessionId": client.responder.session, "path": 5}))
    for method, params in messages:
        answer = await client.call(method, params, rule=25)
        failure = f"{method} with {sorted(params)} gave {answer.summary}; expected -32602"
        fixture.notes.judge(25, answer.code == -32602, f"{method} gave -32602", failure, answer.evidence)


async def unknown_notifications(fixture: ClientFixture) -> None:
    turn = await fixture.start_turn()
    client = turn.client
    first_answer = await client.ping()
    for number in range(50):
        client.send_text(f"{number} ")
    messages: tuple[tuple[RuleId, str, Any], ...] = (
        (20, "_test/n", {"a": 1}),
        (20, "nope/n", {}),
        (53, "$/cancel_request", {"requestId": "never"}),
        (53, "$/cancel_request", {"requestId": first_answer.request.id}),
        (57, "$/progress", {"token": 1}),
    )
    for rule, method, params in messages:
        sent = client.notify(method, params)
        answer = await client.ping(rule=rule)
        between = [
            line for line in client.lines[sent.number : answer.line.number - 1] if line.sender == "client"
        ]
        if any(line.is_answer for line in between):
            fixture.notes.add_fail(14, f"{method} was answered", [sent.evidence, between[0].evidence])
        fixture.notes.add_pass(rule, f"{method} changed nothing", [sent.evidence, answer.line.evidence])
    fixture.notes.add_pass(14, "notifications are not answered")
    await fixture.finish_turn(turn, ANSWER_TEXT)


async def invalid_lines(fixture: ClientFixture) -> None:
    """Print a banner before the first answer. Closing with a clear message is allowed."""
    fixture.responder.overrides["initialize"] = lambda _: None
    await fixture.start()
    client = await fixture.wait_for_connection()
    initialize = await client.wait_for_call("initialize")
    if initialize is None:
        return
    banner = client.send("Welcome to the agent! v1.0")
    client.reply(initialize, {"result": fixture.responder.initialize_result})
    prompt = await client.wait_for_call("session/prompt")
    if prompt is not None:
        client.send("another line that is not a message")
        await client.ping(rule=22)
        await fixture.finish_turn(ClientTurn(client, prompt), ANSWER_TEXT, (22,))
        return
    await fixture.wait_for_exit()
    has_output = bool(fixture.process.output.strip()) and fixture.process.exit is not None
    fixture.notes.judge(
        22,
        has_output,
        "it closed with a message",
        "it stopped without a message",
        [banner.evidence],
    )


def _with_additional_members(value: Any) -> Any:
    """A copy with an additional member in every object."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {**{name: _with_additional_members(member) for name, member in members}, "zzz": 1}
    return value


async def additional_members(fixture: ClientFixture) -> None:
    fixture.responder.initialize_result = {
        "protocolVersion": 1,
        "agentCapabilities": _with_additional_members(ALL_CAPABILITIES),
        "agentInfo": {"name": "accord-check", "version": "1", "zzz": 1},
        "zzz": 1,
    }
    fixture.responder.session_result = {"zzz": 1}
    turn = await fixture.start_turn(rule=33)
    client = turn.client
    client.update("tool_call", toolCallId="c1", title="Look", zzz={"a": 1})
    client.update("plan", entries=[{"content": "a", "priority": "high", "status": "pending", "zzz": 1}])
    client.send_text("some ", zzz=[1])
    await client.ping(rule=33)
    await fixture.finish_turn(turn, ANSWER_TEXT, (33,))


async def _check_meta(fixture: ClientFixture, rule: int, meta: Any) -> None:
    fixture.responder.initialize_result["agentCapabilities"] = {**ALL_CAPABILITIES, "_meta": meta}
    fixture.responder.session_result = {"_meta": meta}
    turn = await fixture.start_turn(rule=rule)
    client = turn.client
    client.update("tool_call", toolCallId="c1", title="Look", _meta=meta)
    client.update("plan", entries=[{"content": "a", "priority": "high", "status": "pending", "_meta": meta}])
    client.update(
        "agent_message_chunk",
        content={"type": "text", "text": f"{_META_TEXT} ", "_meta": meta},
        _meta=meta,
    )
    request = permission_params(client)
    request["options"] = [{**option, "_meta": meta} for option in request["options"]]
    answer = await client.call("session/request_permission", {**request, "_meta": meta}, rule=rule)
    if not answer.ok:
        fixture.notes.add_fail(
            rule, f"a permission request with `_meta` gave {answer.summary}", answer.evidence
        )
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))
    if fixture.traits.prints_messages and _META_TEXT not in fixture.process.stdout:
        fixture.notes.add_fail(rule, "the message with `_meta` is not printed")


async def vendor_meta(fixture: ClientFixture) -> None:
    await _check_meta(fixture, 39, _VENDOR_META)


async def malformed_meta(fixture: ClientFixture) -> None:
    await _check_meta(fixture, 41, [])


ENVELOPE_CASES: Final = (
    ClientCase(
        "ids, unknown methods, bad params",
        "requests with various ids, unknown methods, missing params",
        (10, 12, 16, 18, 25, 28),
        ids_and_params,
    ),
    ClientCase(
        "notifications",
        "fifty updates, unknown notifications, cancels of unknown requests",
        (14, 20, 53, 57),
        unknown_notifications,
    ),
    ClientCase("output that is not a message", "a banner before the first answer", (22,), invalid_lines),
    ClientCase("additional members", "unknown members everywhere", (33,), additional_members),
    ClientCase("_meta", "vendor members on everything", (39,), vendor_meta),
    ClientCase("malformed _meta", "`_meta` that is a list", (41,), malformed_meta),
)


CASES: Final = (
    *INITIALIZE_CASES,
    *LOGIN_CASES,
    *ENVELOPE_CASES,
)
