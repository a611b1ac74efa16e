"""Cases: every kind of update, modes and options, dialects."""

import json
from typing import Any, Final

from accord.check.checked_connection import substitute
from accord.check.client.agent_responder import MODES
from accord.check.client.client_fixture import (
    ANSWER_TEXT,
    ClientCases,
    ClientFixture,
    Ping,
    run_steps,
    tail,
)
from accord.check.client.client_under_test import text_chunk, update
from accord.trace.trace_steps import at, listed
from accord.wire.envelope import Message

case: Final = ClientCases()


_NOTICE_TITLE: Final = "TitleOfTheNotice-"
_ACCOUNT_NAME: Final = "account-of-the-check"
_FIRST_HALF: Final = "TextBeforeTheFirstHalf"
_SECOND_HALF: Final = "TextAfterTheSecondHalf"
_ENTRY: Final = {"content": "Look", "priority": "high", "status": "pending"}
_COMMAND: Final = {"name": "check", "description": "Check it"}
_TEXT: Final = {"type": "text", "text": "text "}
_ITEM: Final = {"type": "content", "content": _TEXT}
_COMMANDS_UPDATE: Final = update("available_commands_update", availableCommands=[_COMMAND])

ALL_UPDATES: Final = (
    update("user_message_chunk", content=_TEXT),
    update("agent_thought_chunk", content=_TEXT),
    update("agent_message_chunk", content={"type": "image", "data": "AA==", "mimeType": "image/png"}),
    update("agent_message_chunk", content={"type": "resource_link", "uri": "file:///x", "name": "x"}),
    update("plan", entries=[_ENTRY, _ENTRY, _ENTRY]),
    update("plan", entries=[_ENTRY]),
    update("tool_call", toolCallId="u1", title="Look"),
    update("tool_call_update", toolCallId="u1", status="completed", content=[]),
    _COMMANDS_UPDATE,
    update("available_commands_update", availableCommands=[]),
    update("current_mode_update", currentModeId="ask"),
    update("config_option_update", configOptions=[]),
    update("session_info_update", title="A title"),
    update("session_info_update", title=None),
    update("usage_update", used=1, size=10, cost={"amount": 3, "currency": "credits"}),
)
"""At least one of each kind that needs no capability."""
_UPDATES_OUTSIDE_TURNS: Final = [
    one for one in ALL_UPDATES if "chunk" not in one["params"]["update"]["sessionUpdate"]
]


def _send_before_session(fixture: ClientFixture) -> None:
    fixture.responder.before_answer["session/new"] = list(_UPDATES_OUTSIDE_TURNS)


def _send_after_session(fixture: ClientFixture) -> None:
    fixture.responder.after_answer["session/new"] = list(_UPDATES_OUTSIDE_TURNS)


case.turn(
    "updates before a session is open",
    "every update that belongs to no turn, before the answer to session/new",
    "prompt.updates-around-session-new",
    _send_before_session,
)()


case.turn(
    "updates outside of a turn",
    "every update that belongs to no turn, after session/new",
    "prompt.updates-outside-turn",
    _send_after_session,
)(Ping("prompt.updates-outside-turn"))


case.turn("every update", "one of each kind, and message ids of every form", "prompt.message-id-opaque")(
    *ALL_UPDATES,
    *[text_chunk("word ", messageId=id) for id in ("m1", None, "m1", "an odd id / 你好", "")],
    text_chunk("word "),
    Ping("prompt.message-id-opaque"),
)


case.turn("unknown updates", "an unknown update and an unknown block", "extension.unknown-update")(
    update("zzz", anything=[1]),
    update("agent_message_chunk", content={"type": "hologram", "data": 5}),
    Ping("extension.unknown-update"),
)


case.turn(
    "unusual tool calls",
    "unknown kinds, an invalid item, updates of unknown calls",
    "tool-call.unknown-kind tool-call.invalid-content-item tool-call.unknown-id tool-call.name-optional",
)(
    update("tool_call", toolCallId="t1", title="Odd", kind="file", status="weird"),
    Ping("tool-call.unknown-kind"),
    update("tool_call", toolCallId="t2", title="Mixed", content=[_ITEM, {"type": "zzz"}, 5, _ITEM]),
    Ping("tool-call.invalid-content-item"),
    update("tool_call_update", toolCallId="never-begun", status="completed"),
    Ping("tool-call.unknown-id"),
    update("tool_call", toolCallId="t3", title="Named", name="read_file"),
    update("tool_call_update", toolCallId="t3", name=None),
    update("tool_call", toolCallId="t4", title="Without", name=None),
    Ping("tool-call.name-optional"),
)


@case("notice.unknown-severity notice.shown notice.unadvertised")
async def notice_updates(fixture: ClientFixture) -> None:
    """Notices: three notices, one of an unknown severity."""
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


@case("auth-status.unknown-state auth-status.account-private")
async def auth_status_accounts(fixture: ClientFixture) -> None:
    """Auth status: an unknown state, and accounts with an email address."""
    # An unknown state, and accounts with an address that must not be stored or printed.
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


@case("prompt.unknown-stop-reason")
async def unknown_stop_reason(fixture: ClientFixture) -> None:
    """An unknown stop reason: the turn ends with `tool_use`."""
    turn = await fixture.start_turn()
    turn.client.send_text(ANSWER_TEXT)
    turn.client.end_turn(turn.prompt, "tool_use")
    ended = await fixture.wait_for_exit()
    exit = fixture.process.exit
    passed = (ended or not fixture.traits.exits_after_turn) and (exit is None or exit.signal is None)
    passed = passed and (not fixture.traits.prints_messages or ANSWER_TEXT in fixture.process.stdout)
    failure = f"the turn does not end: {tail(fixture.process.output)}"
    fixture.judge("prompt.unknown-stop-reason", passed, "the turn is over", failure, turn.client.lines[-1])


@case("prompt.refusal-shown")
async def refusal_stop_reason(fixture: ClientFixture) -> None:
    """A refusal: the turn ends with `refusal`."""
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


@case("command.sent-as-text")
async def slash_command(fixture: ClientFixture) -> None:
    """A slash command: a prompt that starts with a slash."""
    rule = "command.sent-as-text"
    if not fixture.can_choose_prompt:
        fixture.add_not_shown(rule, "the prompt cannot be chosen: the command has no {prompt}")
        return
    fixture.responder.after_answer["session/new"] = [_COMMANDS_UPDATE]
    turn = await fixture.start_turn(prompt="/check it now")
    blocks = listed(turn.prompt.params, "prompt")
    passed = bool(blocks) and str(at(blocks[0], "text")).startswith("/check it now")
    failure = "the command did not arrive as text"
    fixture.judge(rule, passed, "it arrived as text", failure, turn.prompt)
    await fixture.finish_turn(turn)


@case("accord.client-lone-surrogate")
async def split_surrogates(fixture: ClientFixture) -> None:
    """Split surrogates: an emoji in two updates."""
    rule = "accord.client-lone-surrogate"
    turn = await fixture.start_turn()
    for half in (f"{_FIRST_HALF} \ud83d", f"\ude00 {_SECOND_HALF} "):
        chunk = substitute(text_chunk(half), {"session": fixture.responder.session})
        turn.client.send(json.dumps(chunk))  # escaped, because a lone surrogate is not valid UTF-8
    await turn.client.ping(rule=rule)
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


@case("mode.only-listed option.modes-as-fallback")
async def set_listed_mode(fixture: ClientFixture) -> None:
    """Modes without options: the mode action."""
    # The agent has only modes, so `session/set_mode` must be used.
    fixture.require_actions("mode")
    fixture.responder.session_result = {"modes": MODES}
    client = await fixture.try_turn("mode", mode="code")
    calls = client.calls("session/set_mode")
    fixture.judge(
        "option.modes-as-fallback", bool(calls), "it uses session/set_mode", "no mode was set", *calls
    )


@case("mode.only-listed")
async def set_unlisted_mode(fixture: ClientFixture) -> None:
    """An unlisted mode: the mode action with an unknown mode."""
    fixture.require_actions("mode")
    fixture.responder.session_result = {"modes": MODES}
    client = await fixture.try_turn("mode", mode="nope")
    if not client.calls("session/set_mode"):
        fixture.add_pass("mode.only-listed", "an unlisted mode was not set")


@case("option.preferred-to-modes")
async def modes_and_options(fixture: ClientFixture) -> None:
    """Modes and options: an agent that has both."""
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


@case("option.boolean-value option.unknown-type option.unknown-category")
async def unusual_options(fixture: ClientFixture) -> None:
    """Unusual options: an unknown type, an unknown category, a boolean."""
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


def _session_update(**params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "$session", **params}}


def _text_block(text: str) -> dict[str, str]:
    return {"type": "text", "text": f"{text} "}


_DIALECT_UPDATES: Final[tuple[Message, ...]] = (
    _session_update(sessionUpdate="agent_message_chunk", content=_text_block(_FLAT_UPDATE_TEXT)),
    _session_update(update={"type": "agent_message_chunk", "content": _text_block(_TYPE_MEMBER_TEXT)}),
    _session_update(update={"sessionUpdate": "agent_message_chunk", "text": f"{_NO_BLOCK_TEXT} "}),
)
"""The same text in three dialects: a flat update, `type` for the kind, and text without a block."""
_DIALECT_PERMISSION: Final = {
    "permissionId": "p1",
    "toolName": "write",
    "args": {"path": "x"},
    "description": "Write x",
}


@case("dialects")
async def dialects_are_repaired(fixture: ClientFixture) -> None:
    """Dialects: updates and a permission request in dialects."""
    # Text in dialects must be printed; a permission request in a dialect must not be allowed.
    rule = "dialects"
    turn = await fixture.start_turn(*fixture.available_actions("reject"))
    client = turn.client
    await run_steps(client, _DIALECT_UPDATES)
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


@case("accord.client-strict-mode")
async def dialects_in_strict_mode(fixture: ClientFixture) -> None:
    """Dialects in strict mode: updates and a permission request in dialects, with the strict action."""
    rule = "accord.client-strict-mode"
    fixture.require_actions("strict")
    turn = await fixture.start_turn("strict")
    client = turn.client
    await run_steps(client, _DIALECT_UPDATES)
    request = {**_DIALECT_PERMISSION, "sessionId": client.responder.session}
    answer = await client.call("session/request_permission", request, rule=rule)
    failure = f"a permission request in a dialect gave {answer.summary}; expected -32602"
    fixture.judge(rule, answer.code == -32602, "it gave -32602", failure, answer)
    await fixture.finish_turn(turn, ANSWER_TEXT, (rule,))
    dropped = (_FLAT_UPDATE_TEXT, _TYPE_MEMBER_TEXT)
    printed = [_DIALECT_TEXTS[text] for text in dropped if text in fixture.process.stdout]
    failure = f"repaired in strict mode: {', '.join(printed)}; {tail(fixture.process.output, 100)}"
    fixture.judge(rule, not printed, "text in dialects is dropped", failure)
