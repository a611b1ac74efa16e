"""Dialects of the field: understood where the client repairs, left alone where it is strict."""

from typing import Any, Final

from accord.check.client.part import Part
from accord.check.client.scene import Scene
from accord.check.client.stage import Stage, tail
from accord.trace.exchange import at

_ALLOWED: Final = ("allow_once", "allow_always", "allowed", "approved", "allow")


def _speak(part: Part) -> None:
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


async def repaired(stage: Stage) -> None:
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


async def strict(stage: Stage) -> None:
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


SCENES: Final = (
    Scene("dialects", "updates and a permission in the dialects of the field", ("dialects",), repaired),
    Scene("dialects in strict mode", "the same, for a client that repairs nothing", (391,), strict),
)
