"""Ids, unknown methods, notifications, bad params, additional members, `_meta`, noise."""

from typing import Any, Final

from accord.check.client.desk import EVERYTHING
from accord.check.client.part import Part
from accord.check.client.scene import Scene
from accord.check.client.scenes.permissions import permission
from accord.check.client.stage import Stage, Turn
from accord.check.ledger import Rule

_VENDOR: Final = {"example.com/x": {"a": [1]}}


async def ids(stage: Stage) -> None:
    turn = await stage.turn()
    part = turn.part
    for id in (0, "perm_1", -7, 9007199254740991, "", "0"):
        answer = await part.call("session/request_permission", permission(part), id=id, owes=10)
        stage.ledger.kept(10, f"the id {id!r} came back", answer.shown)
    for rule, method in ((16, "nope/nope"), (18, "_test/x")):
        answer = await part.call(method, {}, owes=rule)
        bad = f"{method} gave {answer.says}; expected -32601"
        stage.ledger.judge(rule, answer.code == -32601, f"{method} gave -32601", bad, answer.shown)
    await _bad_params(stage, part)
    await stage.finish(turn, "marigold")


async def _bad_params(stage: Stage, part: Part) -> None:
    tries: list[tuple[str, Any]] = [
        ("session/request_permission", {"sessionId": part.desk.session, "options": []}),
        ("session/request_permission", {"toolCall": {"toolCallId": "c"}, "options": []}),
    ]
    if part.has("fs.readTextFile"):
        tries.append(("fs/read_text_file", {"sessionId": part.desk.session}))
        tries.append(("fs/read_text_file", {"sessionId": part.desk.session, "path": 5}))
    for method, params in tries:
        answer = await part.call(method, params, owes=25)
        bad = f"{method} with {sorted(params)} gave {answer.says}; expected -32602"
        stage.ledger.judge(25, answer.code == -32602, f"{method} gave -32602", bad, answer.shown)


async def notifications(stage: Stage) -> None:
    turn = await stage.turn()
    part = turn.part
    answered = await part.barrier()
    for number in range(50):
        part.say(f"{number} ")
    tries: tuple[tuple[Rule, str, Any], ...] = (
        (20, "_test/n", {"a": 1}),
        (20, "nope/n", {}),
        (53, "$/cancel_request", {"requestId": "never"}),
        (53, "$/cancel_request", {"requestId": answered.asked.id}),
        (57, "$/progress", {"token": 1}),
    )
    for rule, method, params in tries:
        sent = part.notify(method, params)
        answer = await part.barrier(owes=rule)
        between = [
            line for line in part.lines[sent.number : answer.line.number - 1] if line.sender == "client"
        ]
        if any(line.is_answer for line in between):
            stage.ledger.broken(14, f"{method} was answered", [sent.shown, between[0].shown])
        stage.ledger.kept(rule, f"{method} changed nothing", [sent.shown, answer.line.shown])
    stage.ledger.kept(14, "notifications stay without an answer")
    await stage.finish(turn, "marigold")


async def noise(stage: Stage) -> None:
    """A banner before the first answer. Closing with a clear message is as good as going on."""
    stage.desk.answers["initialize"] = lambda _: None
    await stage.start()
    part = await stage.agent()
    begun = await part.hears("initialize")
    if begun is None:
        return
    banner = part.send("Welcome to the agent! v1.0")
    part.reply(begun, {"result": stage.desk.initialized})
    prompt = await part.hears("session/prompt")
    if prompt is not None:
        part.send("another line of noise")
        await part.barrier(owes=22)
        await stage.finish(Turn(part, prompt), "marigold", (22,))
        return
    await stage.over()
    told = bool(stage.client.output.strip()) and stage.client.exit is not None
    stage.ledger.judge(
        22, told, "it closed with a message", "it does not go on, and does not say why", [banner.shown]
    )


def _extra(value: Any) -> Any:
    """The same with a member more in every object."""
    if isinstance(value, dict):
        return {**{name: _extra(member) for name, member in value.items()}, "zzz": 1}  # pyright: ignore[reportUnknownVariableType]
    return value


async def extra(stage: Stage) -> None:
    stage.desk.initialized = {
        "protocolVersion": 1,
        "agentCapabilities": _extra(EVERYTHING),
        "agentInfo": {"name": "accord-check", "version": "1", "zzz": 1},
        "zzz": 1,
    }
    stage.desk.opened = {"zzz": 1}
    turn = await stage.turn(owes=33)
    part = turn.part
    part.update("tool_call", toolCallId="c1", title="Look", zzz={"a": 1})
    part.update("plan", entries=[{"content": "a", "priority": "high", "status": "pending", "zzz": 1}])
    part.say("some ", zzz=[1])
    await part.barrier(owes=33)
    await stage.finish(turn, "marigold", (33,))


async def _meta(stage: Stage, rule: int, meta: Any) -> None:
    stage.desk.initialized["agentCapabilities"] = {**EVERYTHING, "_meta": meta}
    stage.desk.opened = {"_meta": meta}
    turn = await stage.turn(owes=rule)
    part = turn.part
    part.update("tool_call", toolCallId="c1", title="Look", _meta=meta)
    part.update("plan", entries=[{"content": "a", "priority": "high", "status": "pending", "_meta": meta}])
    part.update(
        "agent_message_chunk", content={"type": "text", "text": "calendula ", "_meta": meta}, _meta=meta
    )
    asked = permission(part)
    asked["options"] = [{**option, "_meta": meta} for option in asked["options"]]
    answer = await part.call("session/request_permission", {**asked, "_meta": meta}, owes=rule)
    if not answer.ok:
        stage.ledger.broken(rule, f"a permission request with `_meta` gave {answer.says}", answer.shown)
    await stage.finish(turn, "marigold", (rule,))
    if stage.traits.shows and "calendula" not in stage.client.printed:
        stage.ledger.broken(rule, "the message with it is not shown")


async def meta(stage: Stage) -> None:
    await _meta(stage, 39, _VENDOR)


async def malformed_meta(stage: Stage) -> None:
    await _meta(stage, 41, [])


SCENES: Final = (
    Scene(
        "ids, unknown methods, bad params",
        "requests under all kinds of ids, methods that nobody has, params that are missing",
        (10, 12, 16, 18, 25, 28),
        ids,
    ),
    Scene("notifications", "fifty updates, unknown notifications, cancels of nothing", (14, 20, 53, 57), notifications),
    Scene("noise", "a banner before the first answer", (22,), noise),
    Scene("additional members", "members that nobody knows, everywhere", (33,), extra),
    Scene("_meta", "vendor members on everything", (39,), meta),
    Scene("malformed _meta", "`_meta` that is a list", (41,), malformed_meta),
)  # fmt: skip
