"""Cases: every kind of update, modes and options, dialects."""

import json
from typing import Any, Final

from accord.check.client.agent_responder import MODES
from accord.check.client.client_fixture import ANSWER_TEXT, ClientCases, ClientFixture, tail
from accord.check.client.client_under_test import ClientUnderTest
from accord.trace.trace_steps import at, listed

case: Final = ClientCases()


_NOTICE_TITLE: Final = "TitleOfTheNotice-"
_ACCOUNT_NAME: Final = "account-of-the-check"
_FIRST_HALF: Final = "TextBeforeTheFirstHalf"
_SECOND_HALF: Final = "TextAfterTheSecondHalf"
_ENTRY: Final = {"content": "Look", "priority": "high", "status": "pending"}
_COMMAND: Final = {"name": "check", "description": "Check it"}
_TEXT: Final = {"type": "text", "text": "text "}

ALL_UPDATES: Final[tuple[dict[str, Any], ...]] = (
    {"sessionUpdate": "user_message_chunk", "content": _TEXT},
    {"sessionUpdate": "agent_thought_chunk", "content": _TEXT},
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "image", "data": "AA==", "mimeType": "image/png"},
    },
    {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "resource_link", "uri": "file:///x", "name": "x"},
    },
    {"sessionUpdate": "plan", "entries": [_ENTRY, _ENTRY, _ENTRY]},
    {"sessionUpdate": "plan", "entries": [_ENTRY]},
    {"sessionUpdate": "tool_call", "toolCallId": "u1", "title": "Look"},
    {"sessionUpdate": "tool_call_update", "toolCallId": "u1", "status": "completed", "content": []},
    {"sessionUpdate": "available_commands_update", "availableCommands": [_COMMAND]},
    {"sessionUpdate": "available_commands_update", "availableCommands": []},
    {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
    {"sessionUpdate": "config_option_update", "configOptions": []},
    {"sessionUpdate": "session_info_update", "title": "A title"},
    {"sessionUpdate": "session_info_update", "title": None},
    {"sessionUpdate": "usage_update", "used": 1, "size": 10, "cost": {"amount": 3, "currency": "credits"}},
)
"""At least one of each kind that needs no capability."""


def _notification(fixture: ClientFixture, update: dict[str, Any]) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": fixture.responder.session, "update": update}}


def _updates_outside_turns(fixture: ClientFixture) -> list[dict[str, Any]]:
    return [
        _notification(fixture, update) for update in ALL_UPDATES if "chunk" not in update["sessionUpdate"]
    ]


@case(
    "updates before a session is open",
    "every update that belongs to no turn, before the answer to session/new",
    "prompt.updates-around-session-new",
)
async def updates_before_session(fixture: ClientFixture) -> None:
    """Every update that belongs to no turn, sent right before the answer to session/new."""
    rule = "prompt.updates-around-session-new"
    fixture.responder.before_answer["session/new"] = _updates_outside_turns(fixture)
    turn = await fixture.start_turn(rule=rule)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))


@case(
    "updates outside of a turn",
    "every update that belongs to no turn, after session/new",
    "prompt.updates-outside-turn",
)
async def updates_outside_turn(fixture: ClientFixture) -> None:
    """The same updates, after the answer to session/new and before a prompt."""
    rule = "prompt.updates-outside-turn"
    fixture.responder.after_answer["session/new"] = _updates_outside_turns(fixture)
    turn = await fixture.start_turn(rule=rule)
    await turn.client.ping(rule=rule)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))


@case("every update", "one of each kind, and message ids of every form", "prompt.message-id-opaque")
async def all_updates(fixture: ClientFixture) -> None:
    rule = "prompt.message-id-opaque"
    turn = await fixture.start_turn()
    client = turn.client
    for update in ALL_UPDATES:
        client.notify("session/update", {"sessionId": client.responder.session, "update": update})
    for id in ("m1", None, "m1", "an odd id / 你好", ""):
        client.send_text("word ", **({"messageId": id} if id is not None else {"messageId": None}))
    client.send_text("word ")
    await client.ping(rule=rule)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))


@case("unknown updates", "an unknown update and an unknown block", "extension.unknown-update")
async def unknown_updates(fixture: ClientFixture) -> None:
    rule = "extension.unknown-update"
    turn = await fixture.start_turn()
    client = turn.client
    client.update("zzz", anything=[1])
    client.update("agent_message_chunk", content={"type": "hologram", "data": 5})
    await client.ping(rule=rule)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))


@case(
    "unusual tool calls",
    "unknown kinds, an invalid item, updates of unknown calls",
    "tool-call.unknown-kind tool-call.invalid-content-item tool-call.unknown-id tool-call.name-optional",
)
async def unusual_tool_calls(fixture: ClientFixture) -> None:
    """Tool calls with unknown kinds, one invalid item, unknown ids, with and without a name."""
    rule = "tool-call.invalid-content-item"
    turn = await fixture.start_turn()
    client = turn.client
    client.update("tool_call", toolCallId="t1", title="Odd", kind="file", status="weird")
    await client.ping(rule="tool-call.unknown-kind")
    mixed = [{"type": "content", "content": _TEXT}, {"type": "zzz"}, 5, {"type": "content", "content": _TEXT}]
    client.update("tool_call", toolCallId="t2", title="Mixed", content=mixed)
    await client.ping(rule=rule)
    client.update("tool_call_update", toolCallId="never-begun", status="completed")
    await client.ping(rule="tool-call.unknown-id")
    client.update("tool_call", toolCallId="t3", title="Named", name="read_file")
    client.update("tool_call_update", toolCallId="t3", name=None)
    client.update("tool_call", toolCallId="t4", title="Without", name=None)
    await client.ping(rule="tool-call.name-optional")
    await fixture.finish_turn(
        turn, ANSWER_TEXT, ("tool-call.unknown-kind", rule, "tool-call.unknown-id", "tool-call.name-optional")
    )


@case(
    "notices",
    "three notices, one of an unknown severity",
    "notice.unknown-severity notice.shown notice.unadvertised",
)
async def notice_updates(fixture: ClientFixture) -> None:
    """Notices, for a client that advertises them or not."""
    rule = "notice.unadvertised"
    turn = await fixture.start_turn()
    client = turn.client
    advertised = client.advertises("session.notices")
    rules = ("notice.unknown-severity", "notice.shown") if advertised else (rule,)
    for severity in ("warning", "_x", "error"):
        client.update("notice", severity=severity, title=f"{_NOTICE_TITLE}{severity}", description=None)
    await client.ping(rule=rules[0])
    await fixture.finish_turn(turn, ANSWER_TEXT, rules)
    if advertised:
        fixture.add_not_applicable(rule, "it advertises notices")
        printed = f"{_NOTICE_TITLE}warning" in fixture.process.output
        if fixture.traits.prints_messages and not printed:
            failure = f"the notice is not shown; output: {tail(fixture.process.output)}"
            fixture.add_fail("notice.shown", failure)
    else:
        fixture.add_not_applicable(
            "notice.unknown-severity notice.shown", "it does not advertise session.notices"
        )


@case(
    "auth status",
    "an unknown state, and accounts with an email address",
    "auth-status.unknown-state auth-status.account-private",
)
async def auth_status_accounts(fixture: ClientFixture) -> None:
    """An unknown state, and accounts with an address that must not be stored or printed."""
    rule = "auth-status.unknown-state"
    fixture.responder.initialize_result["agentCapabilities"]["auth"] = {"status": {}, "logout": {}}
    accounts = [
        {"label": f"{_ACCOUNT_NAME}@example.com", "active": True},
        {"label": f"{_ACCOUNT_NAME}@example.com"},
    ]
    fixture.responder.overrides["auth/status"] = lambda _: {"result": {"state": "_x", "accounts": accounts}}
    turn = await fixture.start_turn()
    turn.client.notify("auth/status_update", {"state": "_x", "accounts": accounts})
    await turn.client.ping(rule=rule)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))
    files_with_account = [
        path.name
        for path in fixture.home.rglob("*")
        if path.is_file() and f"{_ACCOUNT_NAME}@".encode() in path.read_bytes()
    ]
    printed = f"{_ACCOUNT_NAME}@" in "".join(process.output for process in fixture.processes)
    failure = f"the account is in {files_with_account[0]}" if files_with_account else "the account is printed"
    reason = "the account is not stored or printed"
    fixture.judge("auth-status.account-private", not files_with_account and not printed, reason, failure)


@case("an unknown stop reason", "the turn ends with `tool_use`", "prompt.unknown-stop-reason")
async def unknown_stop_reason(fixture: ClientFixture) -> None:
    turn = await fixture.start_turn()
    turn.client.send_text(ANSWER_TEXT)
    turn.client.end_turn(turn.prompt, "tool_use")
    ended = await fixture.wait_for_exit()
    exit = fixture.process.exit
    passed = (ended or not fixture.traits.exits_after_turn) and (exit is None or exit.signal is None)
    passed = passed and (not fixture.traits.prints_messages or ANSWER_TEXT in fixture.process.stdout)
    failure = f"the turn does not end: {tail(fixture.process.output)}"
    fixture.judge("prompt.unknown-stop-reason", passed, "the turn is over", failure, turn.client.lines[-1])


@case("a refusal", "the turn ends with `refusal`", "prompt.refusal-shown")
async def refusal_stop_reason(fixture: ClientFixture) -> None:
    rule = "prompt.refusal-shown"
    turn = await fixture.start_turn()
    turn.client.end_turn(turn.prompt, "refusal")
    await fixture.wait_for_exit()
    if not fixture.traits.prints_messages:
        fixture.add_not_shown(rule, "it prints nothing")
        return
    reports_refusal = "refus" in fixture.process.output.lower()
    failure = f"output: {tail(fixture.process.output)}"
    fixture.judge(rule, reports_refusal, "it reports the refusal", failure, turn.client.lines[-1])


@case("a slash command", "a prompt that starts with a slash", "command.sent-as-text")
async def slash_command(fixture: ClientFixture) -> None:
    rule = "command.sent-as-text"
    if not fixture.can_choose_prompt:
        fixture.add_not_shown(rule, "the prompt cannot be chosen: the command has no {prompt}")
        return
    fixture.responder.after_answer["session/new"] = [
        _notification(
            fixture, {"sessionUpdate": "available_commands_update", "availableCommands": [_COMMAND]}
        )
    ]
    turn = await fixture.start_turn(prompt="/check it now")
    blocks = listed(turn.prompt.params, "prompt")
    passed = bool(blocks) and str(at(blocks[0], "text")).startswith("/check it now")
    failure = "the command did not arrive as text"
    fixture.judge(rule, passed, "it arrived as text", failure, turn.prompt)
    await fixture.finish_turn(turn)


@case("split surrogates", "an emoji in two updates", "accord.client-lone-surrogate")
async def split_surrogates(fixture: ClientFixture) -> None:
    rule = "accord.client-lone-surrogate"
    turn = await fixture.start_turn()
    client = turn.client
    for half in (f"{_FIRST_HALF} \ud83d", f"\ude00 {_SECOND_HALF} "):
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": half}}
        notification = {
            "method": "session/update",
            "params": {"sessionId": client.responder.session, "update": update},
        }
        # Escaped, because a lone surrogate is not valid UTF-8.
        client.send(json.dumps({"jsonrpc": "2.0", **notification}))
    await client.ping(rule=rule)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))
    if fixture.traits.prints_messages:
        both_printed = all(text in fixture.process.stdout for text in (_FIRST_HALF, _SECOND_HALF))
        failure = "the text around a half is not printed"
        fixture.judge(rule, both_printed, "the text around both halves is printed", failure)


_SLIDER_OPTION: Final = {
    "id": "slide",
    "name": "Slide",
    "type": "slider",
    "min": 0,
    "max": 9,
    "currentValue": 3,
}
_MODE_OPTION: Final[dict[str, Any]] = {
    "id": "mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}


@case("modes without options", "the mode action", "mode.only-listed option.modes-as-fallback")
async def set_listed_mode(fixture: ClientFixture) -> None:
    """The agent has only modes, so `session/set_mode` must be used."""
    fixture.require_actions("mode")
    fixture.responder.session_result = {"modes": MODES}
    client = await fixture.try_turn("mode", mode="code")
    calls = client.calls("session/set_mode")
    fixture.judge(
        "option.modes-as-fallback", bool(calls), "it uses session/set_mode", "no mode was set", *calls
    )


@case("an unlisted mode", "the mode action with an unknown mode", "mode.only-listed")
async def set_unlisted_mode(fixture: ClientFixture) -> None:
    fixture.require_actions("mode")
    fixture.responder.session_result = {"modes": MODES}
    client = await fixture.try_turn("mode", mode="nope")
    if not client.calls("session/set_mode"):
        fixture.add_pass("mode.only-listed", "an unlisted mode was not set")


@case("modes and options", "an agent that has both", "option.preferred-to-modes")
async def modes_and_options(fixture: ClientFixture) -> None:
    rule = "option.preferred-to-modes"
    fixture.require_actions("mode")
    fixture.responder.options.append(dict(_MODE_OPTION))
    fixture.responder.session_result = {"modes": MODES, "configOptions": fixture.responder.options}
    client = await fixture.try_turn("mode", mode="code")
    calls = client.calls("session/set_mode", "session/set_config_option")
    if not calls:
        fixture.add_not_shown(rule, "it set nothing")
        return
    passed = calls[0].method == "session/set_config_option"
    fixture.judge(rule, passed, "it uses the option", "it uses session/set_mode", calls[0])


@case(
    "unusual options",
    "an unknown type, an unknown category, a boolean",
    "option.boolean-value option.unknown-type option.unknown-category",
)
async def unusual_options(fixture: ClientFixture) -> None:
    """Options of an unknown type, of an unknown category, and without category."""
    rule = "option.unknown-type"
    fixture.responder.options.insert(0, dict(_SLIDER_OPTION))
    fixture.responder.session_result = {"configOptions": fixture.responder.options}
    turn = await fixture.start_turn(rule=rule)
    await turn.client.ping(rule=rule)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))
    await fixture.process.end()
    if not fixture.has_action("option"):
        fixture.add_not_shown(
            "option.unknown-category", "the script does not say how to make the client set an option"
        )
        return
    for option, value, expected in (("odd", "two", "two"), ("flag", "true", True)):
        number = len(fixture.connections) + 1
        await fixture.start("option", option=option, value=value)
        client = await fixture.wait_for_connection(number)
        request = await client.wait_for_call(
            "session/set_config_option", "session/prompt", timeout=fixture.timeouts.soon
        )
        is_set = request is not None and request.method == "session/set_config_option"
        if option == "odd":
            failure = "an option of an unknown category cannot be set"
            reason = "an option of an unknown category can be set"
            fixture.judge("option.unknown-category", is_set, reason, failure)
        elif request is not None and is_set:
            correct = at(request.params, "type") == "boolean" and at(request.params, "value") is expected
            fixture.judge(
                "option.boolean-value", correct, "a JSON boolean", f"it sent {request.params}", request
            )
        prompt = await client.wait_for_call("session/prompt", timeout=fixture.timeouts.soon)
        if prompt is not None:
            client.end_turn(prompt)
        await fixture.wait_for_exit()
        await fixture.process.end()


_FLAT_UPDATE_TEXT: Final = "TextOfAFlatUpdate"
_TYPE_MEMBER_TEXT: Final = "TextOfAnUpdateWithType"
_NO_BLOCK_TEXT: Final = "TextWithoutABlock"
_DIALECT_TEXTS: Final = {
    _FLAT_UPDATE_TEXT: "an update whose members are in the params, not in `update`",
    _TYPE_MEMBER_TEXT: "an update that has `type` for `sessionUpdate`",
    _NO_BLOCK_TEXT: "a chunk that has `text` for `content`",
}
"""The text of each dialect, and what a report calls it."""
_ALLOW_IDS: Final = ("allow_once", "allow_always", "allowed", "approved", "allow")


def _send_dialects(client: ClientUnderTest) -> None:
    """Send text in three dialects: a flat update, `type` for the kind, and text without a block."""
    session = client.responder.session
    block = {"type": "text", "text": f"{_FLAT_UPDATE_TEXT} "}
    client.notify(
        "session/update", {"sessionId": session, "sessionUpdate": "agent_message_chunk", "content": block}
    )
    update: dict[str, Any] = {
        "type": "agent_message_chunk",
        "content": {"type": "text", "text": f"{_TYPE_MEMBER_TEXT} "},
    }
    client.notify("session/update", {"sessionId": session, "update": update})
    update = {"sessionUpdate": "agent_message_chunk", "text": f"{_NO_BLOCK_TEXT} "}
    client.notify("session/update", {"sessionId": session, "update": update})


_DIALECT_PERMISSION: Final = {
    "permissionId": "p1",
    "toolName": "write",
    "args": {"path": "x"},
    "description": "Write x",
}


@case("dialects", "updates and a permission request in dialects", "dialects")
async def dialects_are_repaired(fixture: ClientFixture) -> None:
    """Text in dialects must be printed; a permission request in a dialect must not be allowed."""
    rule = "dialects"
    turn = await fixture.start_turn(*fixture.available_actions("reject"))
    client = turn.client
    _send_dialects(client)
    request = {**_DIALECT_PERMISSION, "sessionId": client.responder.session}
    answer = await client.call("session/request_permission", request, rule=rule)
    chosen = at(answer.result, "outcome", "optionId")
    failure = f"a permission request in a dialect was allowed: {answer.summary}"
    fixture.judge(rule, chosen not in _ALLOW_IDS, "a request in a dialect is not allowed", failure, answer)
    await client.ping(rule=rule)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))
    if fixture.traits.prints_messages:
        missing = [name for text, name in _DIALECT_TEXTS.items() if text not in fixture.process.stdout]
        failure = f"the text is not printed of {', or of '.join(missing)}"
        fixture.judge(rule, not missing, "text in dialects is printed", failure)


@case(
    "dialects in strict mode",
    "updates and a permission request in dialects, with the strict action",
    "accord.client-strict-mode",
)
async def dialects_in_strict_mode(fixture: ClientFixture) -> None:
    rule = "accord.client-strict-mode"
    fixture.require_actions("strict")
    turn = await fixture.start_turn("strict")
    client = turn.client
    _send_dialects(client)
    request = {**_DIALECT_PERMISSION, "sessionId": client.responder.session}
    answer = await client.call("session/request_permission", request, rule=rule)
    failure = f"a permission request in a dialect gave {answer.summary}; expected -32602"
    fixture.judge(rule, answer.code == -32602, "it gave -32602", failure, answer)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))
    dropped = (_FLAT_UPDATE_TEXT, _TYPE_MEMBER_TEXT)
    printed = [_DIALECT_TEXTS[text] for text in dropped if text in fixture.process.stdout]
    failure = f"repaired in strict mode: {', '.join(printed)}; {tail(fixture.process.output, 100)}"
    fixture.judge(rule, not printed, "text in dialects is dropped", failure)
