"""Cases: `initialize`, sign-in, envelopes, ids, lines that are not messages."""

from typing import Any, Final, cast

from accord.check.checked_connection import ConnectionOver, Reply, error_reply, result_reply
from accord.check.client.client_fixture import ANSWER_TEXT, ClientCases, ClientFixture, ClientTurn, Ping, tail
from accord.check.client.client_under_test import ClientUnderTest, text_chunk, update
from accord.check.client.user_decision_cases import permission_params
from accord.check.findings import RuleId
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine

case: Final = ClientCases()


TWO_LINE_PROMPT: Final = "Say hello,\nin two lines: 你好 👋🏽"


@case(
    "framing.client-only-messages framing.client-one-line framing.client-utf8 "
    "framing.client-jsonrpc-member framing.client-no-batch extension.client-no-custom-members "
    "extension.client-known-methods extension.client-announced initialize.first initialize.version-sent "
    "initialize.client-info initialize.client-capabilities-member session.new-members "
    "session.absolute-cwd schema"
)
async def plain_turn(fixture: ClientFixture) -> None:
    """A plain turn: a two-line prompt with non-ASCII text, a thought, text, the end."""
    turn = await fixture.start_turn(prompt=TWO_LINE_PROMPT)
    if fixture.can_choose_prompt:
        prompt_text = "".join(
            str(at(block, "text"))
            for block in listed(turn.prompt.params, "prompt")
            if at(block, "type") == "text"
        )
        arrived = TWO_LINE_PROMPT.replace("\n", "") in prompt_text.replace("\n", "").replace("\r", "")
        failure = f"the prompt arrived as {prompt_text!r}"
        fixture.judge("framing.client-utf8", arrived, "non-ASCII text arrived", failure, turn.prompt)
        passed = "\n" in prompt_text
        fixture.judge(
            "framing.client-one-line", passed, "a two-line prompt was sent in one line", failure, turn.prompt
        )
    turn.client.update("agent_thought_chunk", content={"type": "text", "text": "thinking"})
    await fixture.finish_turn(turn, ANSWER_TEXT)


@case("initialize.missing-agent-capability initialize.minimal-agent")
async def minimal_agent(fixture: ClientFixture) -> None:
    """A minimal agent: initialize answers with the version alone."""
    rule = "initialize.missing-agent-capability"
    fixture.responder.initialize_result = {"protocolVersion": 1}
    fixture.responder.unadvertised_rule = rule
    turn = await fixture.start_turn(rule="initialize.minimal-agent")
    fixture.add_pass("initialize.minimal-agent", "it continued", turn.prompt)
    await fixture.finish_turn(turn, ANSWER_TEXT)
    fixture.add_pass(rule, "only advertised features were used", turn.prompt)


@case("initialize.missing-agent-capability")
async def unsupported_features(fixture: ClientFixture) -> None:
    """Unsupported features: the session, newest, roots, servers and delete actions, for an agent without
    capabilities.
    """
    rule = "initialize.missing-agent-capability"
    fixture.responder.initialize_result = {"protocolVersion": 1}
    fixture.responder.unadvertised_rule = rule
    for action, values in (
        ("session", {"session": "old"}),
        ("newest", {}),
        ("roots", {}),
        ("servers", {}),
        ("delete", {"session": "old"}),
    ):
        if fixture.has_action(action):
            await fixture.try_turn(action, **values)
            fixture.add_pass(rule, f"the feature ({action}) was not used")


@case("initialize.client-malformed-capability")
async def invalid_capabilities(fixture: ClientFixture) -> None:
    """Invalid capabilities: capabilities of wrong types."""
    rule = "initialize.client-malformed-capability"
    fixture.responder.initialize_result = {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": "yes",
            "sessionCapabilities": False,
            "promptCapabilities": {"image": 1},
        },
        "agentInfo": {"name": "accord-check", "version": "1"},
    }
    fixture.responder.unadvertised_rule = rule
    turn = await fixture.start_turn(rule=rule)
    fixture.add_pass(rule, "it ignored them", turn.prompt)
    await fixture.finish_turn(turn, ANSWER_TEXT)


@case("initialize.unsupported-version")
async def other_version(fixture: ClientFixture) -> None:
    """Another version: initialize answers version 9."""
    rule = "initialize.unsupported-version"
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
        fixture.add_fail(rule, f"it continued with {later_calls[0].method}", later_calls[0])
    elif not closed:
        fixture.add_fail(rule, "it neither continued nor closed", client.lines[-1])
    else:
        await fixture.wait_for_exit()
        has_output = bool(fixture.process.output.strip())
        fixture.judge(
            rule, has_output, f"output: {tail(fixture.process.output, 120)}", "it closed without a message"
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


@case("auth.method-without-type auth.offers-login")
async def sign_in_required(fixture: ClientFixture) -> None:
    """Sign-in required: session/new fails until sign-in."""
    rule = "auth.method-without-type"
    _require_login(fixture, _AGENT_METHOD)
    client = await _try_turn_with_login(fixture)
    calls = client.calls("session/new")
    second = _AGENT_METHOD["id"] in _method_ids(client) and len(calls) > 1
    offered = second or _AGENT_METHOD["name"] in fixture.process.output
    failure = f"it neither signed in nor said how; output: {tail(fixture.process.output)}"
    pass_reason = "it signed in and tried again" if second else "it says how to sign in"
    fixture.judge("auth.offers-login", offered, pass_reason, failure, *calls[:1])
    if _method_ids(client):
        passed = _AGENT_METHOD["id"] in _method_ids(client)
        fixture.judge(
            rule, passed, "it signed in with the agent's method", "it signed in with another method id"
        )
    elif offered:
        fixture.add_pass(rule, "it shows the agent's method")
    else:
        fixture.add_not_shown(rule, "it did not sign in")


@case("auth.terminal-method-not-authenticated auth.terminal-login")
async def terminal_login(fixture: ClientFixture) -> None:
    """Login at a terminal: the only method is of type terminal."""
    # The only login is at a terminal: the client must start the login, then connect again.
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
    frames = [line for line in calls if at(line.params, "methodId") == _TERMINAL_METHOD["id"]]
    failure = "it was passed to authenticate"
    reason = "it was not passed to authenticate"
    fixture.judge("auth.terminal-method-not-authenticated", not frames, reason, failure, *frames)
    _judge_terminal_login(fixture, second)


def _judge_terminal_login(fixture: ClientFixture, second: ClientUnderTest | None) -> None:
    rule = "auth.terminal-login"
    if not fixture.logins:
        fixture.add_not_shown(rule, "it did not start the login; that may need a user")
        return
    pipe = fixture.logins[0]
    login_complete = list(pipe.arguments) == _TERMINAL_METHOD["args"] and pipe.login == _LOGIN_VARIABLE
    failure = f"the login was started with {list(pipe.arguments)} and the variable {pipe.login!r}"
    if fixture.judge(rule, login_complete, "with its arguments and variable", failure):
        connected_again = second is not None and bool(second.calls("initialize"))
        fixture.judge(
            rule, connected_again, "then it connected again", "it did not connect again after the login"
        )


@case("auth.invalid-terminal-method")
async def invalid_auth_method(fixture: ClientFixture) -> None:
    """An invalid auth method: a terminal method with invalid args, and a valid method."""
    rule = "auth.invalid-terminal-method"
    _require_login(fixture, _INVALID_METHOD, _AGENT_METHOD)
    client = await _try_turn_with_login(fixture)
    frames = client.calls("authenticate")
    if _INVALID_METHOD["id"] in _method_ids(client):
        fixture.add_fail(rule, "an invalid method was passed to authenticate", *frames)
    elif _AGENT_METHOD["id"] in _method_ids(client) or _AGENT_METHOD["name"] in fixture.process.output:
        fixture.add_pass(rule, "only the valid method is offered or used")
    elif client.calls("session/new"):
        fixture.add_not_shown(rule, "it neither signed in nor said how")
    else:
        fixture.add_fail(rule, "one invalid method made it stop", client.lines[-1])


@case("auth.survives-signed-out-session")
async def signed_out_in_turn(fixture: ClientFixture) -> None:
    """Signed out in a turn: the prompt fails with -32000."""
    rule = "auth.survives-signed-out-session"
    turn = await fixture.start_turn()
    turn.client.reply(turn.prompt, error_reply(-32000, "Authentication required"))
    ended = await fixture.wait_for_exit()
    exit = fixture.process.exit
    if not fixture.traits.exits_after_turn:
        answer = await turn.client.ping(rule=rule)
        fixture.add_pass(rule, "it continues", answer)
        return
    crashed = exit is not None and exit.signal is not None
    failure = "it hangs" if not ended else f"it {exit}: {tail(fixture.process.output)}"
    passed = ended and not crashed and "Traceback" not in fixture.process.output
    fixture.judge(rule, passed, "the turn ended with an error", failure)


_VENDOR_META: Final = {"example.com/x": {"a": [1]}}
_META_TEXT: Final = "TextWithMeta"


@case(
    "framing.client-returns-id framing.client-one-answer framing.client-unknown-method "
    "framing.client-unknown-extension framing.client-invalid-params framing.client-error-members"
)
async def ids_and_params(fixture: ClientFixture) -> None:
    """Ids, unknown methods, bad params: requests with various ids, unknown methods, missing params."""
    turn = await fixture.start_turn()
    client = turn.client
    for id in (0, "perm_1", -7, 9007199254740991, "", "0"):
        answer = await client.call(
            "session/request_permission", permission_params(client), id=id, rule="framing.client-returns-id"
        )
        fixture.add_pass("framing.client-returns-id", f"the id {id!r} was returned", answer)
    for rule, method in (
        ("framing.client-unknown-method", "nope/nope"),
        ("framing.client-unknown-extension", "_test/x"),
    ):
        answer = await client.call(method, {}, rule=rule)
        failure = f"{method} gave {answer.summary}; expected -32601"
        fixture.judge(rule, answer.code == -32601, f"{method} gave -32601", failure, answer)
    await _check_bad_params(fixture, client)
    await fixture.finish_turn(turn, ANSWER_TEXT)


async def _check_bad_params(fixture: ClientFixture, client: ClientUnderTest) -> None:
    rule = "framing.client-invalid-params"
    messages: list[tuple[str, Any]] = [
        ("session/request_permission", {"sessionId": client.responder.session, "options": []}),
        ("session/request_permission", {"toolCall": {"toolCallId": "c"}, "options": []}),
    ]
    if client.advertises("fs.readTextFile"):
        messages.append(("fs/read_text_file", {"sessionId": client.responder.session}))
        messages.append(("fs/read_text_file", {"sessionId": client.responder.session, "path": 5}))
    for method, params in messages:
        answer = await client.call(method, params, rule=rule)
        failure = f"{method} with {sorted(params)} gave {answer.summary}; expected -32602"
        fixture.judge(rule, answer.code == -32602, f"{method} gave -32602", failure, answer)


@case(
    "framing.client-silent-on-notification framing.client-unknown-notification "
    "cancel-request.client-unknown-id cancel-request.client-other-notification"
)
async def unknown_notifications(fixture: ClientFixture) -> None:
    """Notifications: fifty updates, unknown notifications, cancels of unknown requests."""
    turn = await fixture.start_turn()
    client = turn.client
    first_answer = await client.ping()
    for number in range(50):
        client.send_text(f"{number} ")
    messages: tuple[tuple[RuleId, str, Any], ...] = (
        ("framing.client-unknown-notification", "_test/n", {"a": 1}),
        ("framing.client-unknown-notification", "nope/n", {}),
        ("cancel-request.client-unknown-id", "$/cancel_request", {"requestId": "never"}),
        ("cancel-request.client-unknown-id", "$/cancel_request", {"requestId": first_answer.request.id}),
        ("cancel-request.client-other-notification", "$/progress", {"token": 1}),
    )
    for rule, method, params in messages:
        sent = client.notify(method, params)
        answer = await client.ping(rule=rule)
        between = [
            line for line in client.lines[sent.number : answer.line.number - 1] if line.sender == "client"
        ]
        if any(line.is_answer for line in between):
            fixture.add_fail(
                "framing.client-silent-on-notification", f"{method} was answered", sent, between[0]
            )
        fixture.add_pass(rule, f"{method} changed nothing", sent, answer.line)
    fixture.add_pass("framing.client-silent-on-notification", "notifications are not answered")
    await fixture.finish_turn(turn, ANSWER_TEXT)


@case("framing.client-survives-invalid-json")
async def invalid_lines(fixture: ClientFixture) -> None:
    """Output that is not a message: a banner before the first answer."""
    # Print a banner before the first answer. Closing with a clear message is allowed.
    rule = "framing.client-survives-invalid-json"
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
        await client.ping(rule=rule)
        await fixture.finish_turn(ClientTurn(client, prompt), ANSWER_TEXT, (rule,))
        return
    await fixture.wait_for_exit()
    has_output = bool(fixture.process.output.strip()) and fixture.process.exit is not None
    fixture.judge(rule, has_output, "it closed with a message", "it stopped without a message", banner)


def _with_additional_members(value: Any) -> Any:
    """A copy with an additional member in every object."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {**{name: _with_additional_members(member) for name, member in members}, "zzz": 1}
    return value


def _add_members_to_answers(fixture: ClientFixture) -> None:
    fixture.responder.initialize_result = _with_additional_members(fixture.responder.initialize_result)
    fixture.responder.session_result = {"zzz": 1}


case.turn(
    "additional members",
    "unknown members everywhere",
    "framing.client-extra-members",
    _add_members_to_answers,
)(
    update("tool_call", toolCallId="c1", title="Look", zzz={"a": 1}),
    update("plan", entries=[{"content": "a", "priority": "high", "status": "pending", "zzz": 1}]),
    text_chunk("some ", zzz=[1]),
    Ping("framing.client-extra-members"),
)


async def _check_meta(fixture: ClientFixture, rule: RuleId, meta: Any) -> None:
    fixture.responder.initialize_result["agentCapabilities"]["_meta"] = meta
    fixture.responder.session_result = {"_meta": meta}
    turn = await fixture.start_turn(rule=rule)
    client = turn.client
    client.update("tool_call", toolCallId="c1", title="Look", _meta=meta)
    client.update("plan", entries=[{"content": "a", "priority": "high", "status": "pending", "_meta": meta}])
    client.update(
        "agent_message_chunk", content={"type": "text", "text": f"{_META_TEXT} ", "_meta": meta}, _meta=meta
    )
    request = permission_params(client)
    request["options"] = [{**option, "_meta": meta} for option in request["options"]]
    answer = await client.call("session/request_permission", {**request, "_meta": meta}, rule=rule)
    if not answer.ok:
        fixture.add_fail(rule, f"a permission request with `_meta` gave {answer.summary}", answer)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))
    if fixture.traits.prints_messages and _META_TEXT not in fixture.process.stdout:
        fixture.add_fail(rule, "the message with `_meta` is not printed")


@case("extension.client-accepts-meta")
async def vendor_meta(fixture: ClientFixture) -> None:
    """_meta: vendor members on everything."""
    await _check_meta(fixture, "extension.client-accepts-meta", _VENDOR_META)


@case("extension.client-malformed-meta")
async def malformed_meta(fixture: ClientFixture) -> None:
    """Malformed _meta: `_meta` that is a list."""
    await _check_meta(fixture, "extension.client-malformed-meta", [])
