"""Cases: every kind of update, modes and options, dialects."""

import json
from typing import Any, Final

from accord.check.client.agent_responder import MODES
from accord.check.client.client_fixture import ClientCase, ClientFixture, ClientTurn, tail
from accord.check.client.client_under_test import ClientUnderTest
from accord.trace.trace_steps import at, listed

# MERGED check.client.scenes.updates: Updates: every kind there is, before, in and after a turn, and kinds that nobody knows.

_ENTRY: Final = {"content": "Look", "priority": "high", "status": "pending"}
_COMMAND: Final = {"name": "check", "description": "Check it"}
_TEXT: Final = {"type": "text", "text": "text "}

EVERY: Final[tuple[dict[str, Any], ...]] = (
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
"""One of each that needs no gate, at least."""


def _note(stage: ClientFixture, update: dict[str, Any]) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": stage.desk.session, "update": update}}


def _outside_turns(stage: ClientFixture) -> list[dict[str, Any]]:
    return [_note(stage, update) for update in EVERY if "chunk" not in update["sessionUpdate"]]


async def around(stage: ClientFixture) -> None:
    """Commands, title and usage right before the answer to session/new."""
    stage.desk.before["session/new"] = _outside_turns(stage)
    turn = await stage.turn(owes=156)
    await stage.finish(turn, "marigold", (156,))


async def idle(stage: ClientFixture) -> None:
    """The same, once the session is open and nobody has prompted."""
    stage.desk.after["session/new"] = _outside_turns(stage)
    turn = await stage.turn(owes=155)
    await turn.part.barrier(owes=155)
    await stage.finish(turn, "marigold", (155,))


async def every(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part = turn.part
    for update in EVERY:
        part.notify("session/update", {"sessionId": part.desk.session, "update": update})
    for id in ("m1", None, "m1", "an odd id / 你好", ""):
        part.say("word ", **({"messageId": id} if id is not None else {"messageId": None}))
    part.say("word ")
    await part.barrier(owes=148)
    await stage.finish(turn, "marigold", (148,))


async def unknown(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part = turn.part
    part.update("zzz", anything=[1])
    part.update("agent_message_chunk", content={"type": "hologram", "data": 5})
    await part.barrier(owes=49)
    await stage.finish(turn, "marigold", (49,))


async def odd_tools(stage: ClientFixture) -> None:
    """Tool calls of unknown kinds, with one bad item, for calls that never began, with and without a name."""
    turn = await stage.turn()
    part = turn.part
    part.update("tool_call", toolCallId="t1", title="Odd", kind="file", status="weird")
    await part.barrier(owes=187)
    mixed = [{"type": "content", "content": _TEXT}, {"type": "zzz"}, 5, {"type": "content", "content": _TEXT}]
    part.update("tool_call", toolCallId="t2", title="Mixed", content=mixed)
    await part.barrier(owes=188)
    part.update("tool_call_update", toolCallId="never-begun", status="completed")
    await part.barrier(owes=189)
    part.update("tool_call", toolCallId="t3", title="Named", name="read_file")
    part.update("tool_call_update", toolCallId="t3", name=None)
    part.update("tool_call", toolCallId="t4", title="Without", name=None)
    await part.barrier(owes=322)
    await stage.finish(turn, "marigold", (187, 188, 189, 322))


async def notices(stage: ClientFixture) -> None:
    """Notices for whoever wants them, and for whoever does not."""
    turn = await stage.turn()
    part = turn.part
    gated = part.has("session.notices")
    rules = (290, 314) if gated else (316,)
    for severity in ("warning", "_x", "error"):
        part.update("notice", severity=severity, title=f"calendula {severity}", description=None)
    await part.barrier(owes=rules[0])
    await stage.finish(turn, "marigold", rules)
    if gated:
        stage.ledger.absent(316, "it wants notices")
        shown = "calendula warning" in stage.client.output
        if stage.traits.shows and not shown:
            bad = f"the notice is not shown; it says: {tail(stage.client.output)}"
            stage.ledger.broken(314, bad)
    else:
        for rule in (290, 314):
            stage.ledger.absent(rule, "it does not advertise session.notices")


async def accounts(stage: ClientFixture) -> None:
    """A state that nobody knows, two accounts with one label, an address that is nobody's business."""
    stage.desk.initialized["agentCapabilities"]["auth"] = {"status": {}, "logout": {}}
    accounts = [{"label": "marigold@example.com", "active": True}, {"label": "marigold@example.com"}]
    stage.desk.answers["auth/status"] = lambda _: {"result": {"state": "_x", "accounts": accounts}}
    turn = await stage.turn()
    turn.part.notify("auth/status_update", {"state": "_x", "accounts": accounts})
    await turn.part.barrier(owes=362)
    await stage.finish(turn, "calendula", (362,))
    kept = [
        path.name for path in stage.home.rglob("*") if path.is_file() and b"marigold@" in path.read_bytes()
    ]
    told = "marigold@" in "".join(client.output for client in stage.clients)
    bad = f"the account is in {kept[0]}" if kept else "the account is printed"
    stage.ledger.judge(363, not kept and not told, "it is nowhere", bad)


async def stops(stage: ClientFixture) -> None:
    turn = await stage.turn()
    turn.part.say("calendula")
    turn.part.stop(turn.prompt, "tool_use")
    ended = await stage.over()
    exit = stage.client.exit
    fine = (ended or not stage.traits.leaves) and (exit is None or exit.signal is None)
    fine = fine and (not stage.traits.shows or "calendula" in stage.client.printed)
    bad = f"the turn does not end: {tail(stage.client.output)}"
    stage.ledger.judge(154, fine, "the turn is over", bad, [turn.part.lines[-1].shown])


async def refusal(stage: ClientFixture) -> None:
    turn = await stage.turn()
    turn.part.stop(turn.prompt, "refusal")
    await stage.over()
    if not stage.traits.shows:
        stage.ledger.unseen(153, "it prints nothing")
        return
    said = "refus" in stage.client.output.lower()
    bad = f"it says: {tail(stage.client.output)}"
    stage.ledger.judge(153, said, "it tells", bad, [turn.part.lines[-1].shown])


async def slash(stage: ClientFixture) -> None:
    if not stage.prompts:
        stage.ledger.unseen(229, "it cannot be told what to prompt: the command has no {prompt}")
        return
    stage.desk.after["session/new"] = [
        _note(stage, {"sessionUpdate": "available_commands_update", "availableCommands": [_COMMAND]})
    ]
    turn = await stage.turn(prompt="/check it now")
    blocks = listed(turn.prompt.params, "prompt")
    kept = bool(blocks) and str(at(blocks[0], "text")).startswith("/check it now")
    bad = "the command did not arrive as text"
    stage.ledger.judge(229, kept, "it arrived as text", bad, [turn.prompt.shown])
    await stage.finish(turn)


async def surrogates(stage: ClientFixture) -> None:
    turn = await stage.turn()
    part = turn.part
    for half in ("calendula \ud83d", "\ude00 tansy "):
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": half}}
        note = {"method": "session/update", "params": {"sessionId": part.desk.session, "update": update}}
        part.send(json.dumps({"jsonrpc": "2.0", **note}))  # escaped, so that half a character can cross
    await part.barrier(owes=393)
    await stage.finish(turn, "marigold", (393,))
    if stage.traits.shows:
        seen = "calendula" in stage.client.printed and "tansy" in stage.client.printed
        stage.ledger.judge(393, seen, "both halves are shown", "a half is not shown")


UPDATE_CASES: Final = (
    ClientCase("updates before a session is open", "every update that belongs to no turn", (156,), around),
    ClientCase("updates outside of a turn", "the same, once the session is open", (155,), idle),
    ClientCase("every update", "one of each, and message ids of every form", (148,), every),
    ClientCase("unknown updates", "an update and a block that nobody knows", (49,), unknown),
    ClientCase(
        "odd tool calls", "unknown kinds, a bad item, calls that never began", (187, 188, 189, 322), odd_tools
    ),
    ClientCase("notices", "three of them, one of an unknown severity", (290, 314, 316), notices),
    ClientCase("accounts", "a state that nobody knows, and an address", (362, 363), accounts),
    ClientCase("an unknown stop reason", "`tool_use`", (154,), stops),
    ClientCase("a refusal", "the turn ends as refused", (153,), refusal),
    ClientCase("a command", "a prompt that begins with a slash", (229,), slash),
    ClientCase("half a character", "an emoji in two halves", (393,), surrogates),
)


# MERGED check.client.scenes.choosing: Choosing: modes and options, listed or not, of known and unknown kinds.

_SLIDER: Final = {"id": "slide", "name": "Slide", "type": "slider", "min": 0, "max": 9, "currentValue": 3}
_MODE: Final[dict[str, Any]] = {
    "id": "mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}


async def _through(stage: ClientFixture, *acts: str, **values: str) -> Any:
    """A whole run; the agent of it."""
    await stage.start(*acts, **values)
    part = await stage.agent()
    prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
    if prompt is not None:
        await stage.finish(ClientTurn(part, prompt))
    else:
        await stage.over()
    return part


async def modes(stage: ClientFixture) -> None:
    """An agent that has modes only: that is what is used, where it is listed."""
    stage.need("mode")
    stage.desk.opened = {"modes": MODES}
    part = await _through(stage, "mode", mode="code")
    calls = part.calls("session/set_mode")
    stage.ledger.judge(
        226, bool(calls), "it uses session/set_mode", "no mode was set", [c.shown for c in calls]
    )


async def unlisted(stage: ClientFixture) -> None:
    stage.need("mode")
    stage.desk.opened = {"modes": MODES}
    part = await _through(stage, "mode", mode="nope")
    if not part.calls("session/set_mode"):
        stage.ledger.kept(207, "what is not listed was not set")


async def both(stage: ClientFixture) -> None:
    stage.need("mode")
    stage.desk.options.append(dict(_MODE))
    stage.desk.opened = {"modes": MODES, "configOptions": stage.desk.options}
    part = await _through(stage, "mode", mode="code")
    calls = part.calls("session/set_mode", "session/set_config_option")
    if not calls:
        stage.ledger.unseen(224, "it set nothing")
        return
    kept = calls[0].method == "session/set_config_option"
    stage.ledger.judge(224, kept, "it uses the option", "it uses session/set_mode", [calls[0].shown])


async def odd(stage: ClientFixture) -> None:
    """An option of an unknown type beside one of an unknown category and one of none."""
    stage.desk.options.insert(0, dict(_SLIDER))
    stage.desk.opened = {"configOptions": stage.desk.options}
    turn = await stage.turn(owes=221)
    await turn.part.barrier(owes=221)
    await stage.finish(turn, "marigold", (221,))
    await stage.client.end()
    if not stage.can("option"):
        stage.ledger.unseen(222, "the script does not say how to make the client set an option")
        return
    for option, value, expected in (("odd", "two", "two"), ("flag", "true", True)):
        number = len(stage.parts) + 1
        await stage.start("option", option=option, value=value)
        part = await stage.agent(number)
        asked = await part.hears("session/set_config_option", "session/prompt", bound=stage.bounds.soon)
        used = asked is not None and asked.method == "session/set_config_option"
        if option == "odd":
            stage.ledger.judge(222, used, "it can be set", "an option of an unknown category cannot be set")
        elif asked is not None and used:
            right = at(asked.params, "type") == "boolean" and at(asked.params, "value") is expected
            stage.ledger.judge(218, right, "a JSON boolean", f"it sent {asked.params}", [asked.shown])
        prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
        if prompt is not None:
            part.stop(prompt)
        await stage.over()
        await stage.client.end()


OPTION_CASES: Final = (
    ClientCase("modes alone", "an agent that has modes and no options", (207, 226), modes),
    ClientCase("a mode that is not listed", "the client is told to choose it", (207,), unlisted),
    ClientCase("modes and options", "an agent that has both", (224,), both),
    ClientCase("odd options", "an unknown type, an unknown category, a boolean", (218, 221, 222), odd),
)


# MERGED check.client.scenes.dialects: Dialects of the field: understood where the client repairs, left alone where it is strict.

_ALLOWED: Final = ("allow_once", "allow_always", "allowed", "approved", "allow")


def _speak(part: ClientUnderTest) -> None:
    """Updates in three dialects, each with a word of its own: flat, `type` for the kind, text without a block."""
    session = part.desk.session
    block = {"type": "text", "text": "calendula "}
    part.notify(
        "session/update", {"sessionId": session, "sessionUpdate": "agent_message_chunk", "content": block}
    )
    update: dict[str, Any] = {"type": "agent_message_chunk", "content": {"type": "text", "text": "tansy "}}
    part.notify("session/update", {"sessionId": session, "update": update})
    update = {"sessionUpdate": "agent_message_chunk", "text": "yarrow "}
    part.notify("session/update", {"sessionId": session, "update": update})


_OLD_PERMISSION: Final = {
    "permissionId": "p1",
    "toolName": "write",
    "args": {"path": "x"},
    "description": "Write x",
}


async def repaired(stage: ClientFixture) -> None:
    """What is said in dialect is shown; a permission in dialect is answered, and is no consent."""
    turn = await stage.turn(*stage.if_can("reject"))
    part = turn.part
    _speak(part)
    asked = {**_OLD_PERMISSION, "sessionId": part.desk.session}
    answer = await part.call("session/request_permission", asked, owes="dialects")
    chosen = at(answer.result, "outcome", "optionId")
    bad = f"a permission in dialect was approved: {answer.says}"
    stage.ledger.judge("dialects", chosen not in _ALLOWED, "no consent", bad, answer.shown)
    await part.barrier(owes="dialects")
    await stage.finish(turn, "marigold", ("dialects",))
    if stage.traits.shows:
        missing = [word for word in ("calendula", "tansy", "yarrow") if word not in stage.client.printed]
        bad = f"not shown: {', '.join(missing)}"
        stage.ledger.judge("dialects", not missing, "what was said in dialect is shown", bad)


async def strict(stage: ClientFixture) -> None:
    stage.need("strict")
    turn = await stage.turn("strict")
    part = turn.part
    _speak(part)
    asked = {**_OLD_PERMISSION, "sessionId": part.desk.session}
    answer = await part.call("session/request_permission", asked, owes=391)
    bad = f"a permission in dialect gave {answer.says}; expected -32602"
    stage.ledger.judge(391, answer.code == -32602, "-32602", bad, answer.shown)
    await stage.finish(turn, "marigold", (391,))
    shown = [word for word in ("calendula", "tansy") if word in stage.client.printed]
    bad = f"repaired all the same: {', '.join(shown)}; {tail(stage.client.output, 100)}"
    stage.ledger.judge(391, not shown, "what was said in dialect is dropped", bad)


DIALECT_CASES: Final = (
    ClientCase("dialects", "updates and a permission in the dialects of the field", ("dialects",), repaired),
    ClientCase("dialects in strict mode", "the same, for a client that repairs nothing", (391,), strict),
)


CASES: Final = (
    *UPDATE_CASES,
    *OPTION_CASES,
    *DIALECT_CASES,
)
