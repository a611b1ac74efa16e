"""Updates: every kind there is, before, in and after a turn, and kinds that nobody knows."""

import json
from typing import Any, Final

from accord.check.client.scene import Scene
from accord.check.client.stage import Stage, tail
from accord.trace.exchange import at, listed

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


def _note(stage: Stage, update: dict[str, Any]) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": stage.desk.session, "update": update}}


def _outside_turns(stage: Stage) -> list[dict[str, Any]]:
    return [_note(stage, update) for update in EVERY if "chunk" not in update["sessionUpdate"]]


async def around(stage: Stage) -> None:
    """Commands, title and usage right before the answer to session/new."""
    stage.desk.before["session/new"] = _outside_turns(stage)
    turn = await stage.turn(owes=156)
    await stage.finish(turn, "marigold", (156,))


async def idle(stage: Stage) -> None:
    """The same, once the session is open and nobody has prompted."""
    stage.desk.after["session/new"] = _outside_turns(stage)
    turn = await stage.turn(owes=155)
    await turn.part.barrier(owes=155)
    await stage.finish(turn, "marigold", (155,))


async def every(stage: Stage) -> None:
    turn = await stage.turn()
    part = turn.part
    for update in EVERY:
        part.notify("session/update", {"sessionId": part.desk.session, "update": update})
    for id in ("m1", None, "m1", "an odd id / 你好", ""):
        part.say("word ", **({"messageId": id} if id is not None else {"messageId": None}))
    part.say("word ")
    await part.barrier(owes=148)
    await stage.finish(turn, "marigold", (148,))


async def unknown(stage: Stage) -> None:
    turn = await stage.turn()
    part = turn.part
    part.update("zzz", anything=[1])
    part.update("agent_message_chunk", content={"type": "hologram", "data": 5})
    await part.barrier(owes=49)
    await stage.finish(turn, "marigold", (49,))


async def odd_tools(stage: Stage) -> None:
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


async def notices(stage: Stage) -> None:
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


async def accounts(stage: Stage) -> None:
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


async def stops(stage: Stage) -> None:
    turn = await stage.turn()
    turn.part.say("calendula")
    turn.part.stop(turn.prompt, "tool_use")
    ended = await stage.over()
    exit = stage.client.exit
    fine = (ended or not stage.traits.leaves) and (exit is None or exit.signal is None)
    fine = fine and (not stage.traits.shows or "calendula" in stage.client.printed)
    bad = f"the turn does not end: {tail(stage.client.output)}"
    stage.ledger.judge(154, fine, "the turn is over", bad, [turn.part.lines[-1].shown])


async def refusal(stage: Stage) -> None:
    turn = await stage.turn()
    turn.part.stop(turn.prompt, "refusal")
    await stage.over()
    if not stage.traits.shows:
        stage.ledger.unseen(153, "it prints nothing")
        return
    said = "refus" in stage.client.output.lower()
    bad = f"it says: {tail(stage.client.output)}"
    stage.ledger.judge(153, said, "it tells", bad, [turn.part.lines[-1].shown])


async def slash(stage: Stage) -> None:
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


async def surrogates(stage: Stage) -> None:
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


SCENES: Final = (
    Scene("updates before a session is open", "every update that belongs to no turn", (156,), around),
    Scene("updates outside of a turn", "the same, once the session is open", (155,), idle),
    Scene("every update", "one of each, and message ids of every form", (148,), every),
    Scene("unknown updates", "an update and a block that nobody knows", (49,), unknown),
    Scene(
        "odd tool calls", "unknown kinds, a bad item, calls that never began", (187, 188, 189, 322), odd_tools
    ),
    Scene("notices", "three of them, one of an unknown severity", (290, 314, 316), notices),
    Scene("accounts", "a state that nobody knows, and an address", (362, 363), accounts),
    Scene("an unknown stop reason", "`tool_use`", (154,), stops),
    Scene("a refusal", "the turn ends as refused", (153,), refusal),
    Scene("a command", "a prompt that begins with a slash", (229,), slash),
    Scene("half a character", "an emoji in two halves", (393,), surrogates),
)
