"""Cancelling: by the person, with requests pending, and by the client itself when time is up."""

from typing import Final

from accord.check.client.scene import Scene
from accord.check.client.scenes.permissions import permission
from accord.check.client.scenes.terminals import LONG, open_terminal
from accord.check.client.stage import Stage, tail
from accord.check.scene import Missing
from accord.trace.exchange import at


async def pending(stage: Stage) -> None:
    """Two permissions are pending while the turn is cancelled."""
    if not stage.script.cancels:
        raise Missing("the script does not say that an interrupt cancels")
    stage.need("ask")
    turn = await stage.turn("ask")
    part = turn.part
    asked = [
        part.ask("session/request_permission", permission(part, call, path=str(stage.folder / "notes.txt")))
        for call in ("c1", "c2")
    ]
    await part.barrier()
    stage.client.interrupt()
    cancel = await part.hears("session/cancel", bound=stage.bounds.soon)
    if cancel is None:
        raise Missing("an interrupt did not cancel the turn")
    for one in asked:
        answer = await part.answer(one, owes=165, bound=stage.bounds.soon)
        kept = at(answer.result, "outcome", "outcome") == "cancelled"
        bad = f"a pending permission got {answer.says}; expected cancelled"
        stage.ledger.judge(165, kept, "cancelled", bad, [cancel.shown, *answer.shown])
    part.stop(turn.prompt, "cancelled")
    await stage.over()


async def late(stage: Stage) -> None:
    """What a tool did in the end is told after the cancel; a wait for a terminal is pending."""
    if not stage.script.cancels:
        raise Missing("the script does not say that an interrupt cancels")
    turn = await stage.turn(*stage.if_can("allow"))
    part = turn.part
    part.update("tool_call", toolCallId="c1", title="Long", status="in_progress", kind="other")
    waiting = None
    if part.has("terminal"):
        terminal = await open_terminal(stage, part, LONG, 55)
        waiting = terminal.ask("wait_for_exit")
    await part.barrier()
    stage.client.interrupt()
    cancel = await part.hears("session/cancel", bound=stage.bounds.soon)
    if cancel is None:
        raise Missing("an interrupt did not cancel the turn")
    part.update("tool_call_update", toolCallId="c1", status="failed")
    part.say("calendula")
    await part.barrier(owes=167)
    part.stop(turn.prompt, "cancelled")
    ended = await stage.over()
    crashed = stage.client.exit is not None and stage.client.exit.signal == "SIGSEGV"
    kept = (ended or not stage.traits.leaves) and not crashed
    if stage.traits.shows:
        kept = kept and "calendula" in stage.client.printed
    bad = f"what came after the cancel is not taken in: {tail(stage.client.output)}"
    stage.ledger.judge(167, kept, "what came after the cancel is taken in", bad, [cancel.shown])
    if waiting is None:
        stage.ledger.absent(55, "it offers no terminals")
        return
    answers = [
        line for line in part.lines[waiting.number :] if line.sender == "client" and line.is_answer and line.id == waiting.id
    ]  # fmt: skip
    if answers:
        code = at(answers[0].message, "error", "code")
        good = code in (None, -32800)
        stage.ledger.judge(55, good, "a result or -32800", f"it aborted with {code}", [answers[0].shown])


async def deadline(stage: Stage) -> None:
    """The client gives up by itself; it has to say so to the agent."""
    stage.need("deadline")
    turn = await stage.turn("deadline")
    cancel = await turn.part.hears("session/cancel", bound=stage.bounds.soon)
    if cancel is not None:
        stage.ledger.kept(159, "it gave up by session/cancel", [cancel.shown])
        turn.part.stop(turn.prompt, "cancelled")
    else:
        stage.ledger.broken(159, "it gave up without session/cancel", [turn.prompt.shown])
    await stage.over()


SCENES: Final = (
    Scene("cancelled while it is asked", "two permissions are pending", (160, 165), pending),
    Scene("after a cancel", "a late update, and a wait that is pending", (55, 160, 167), late),
    Scene("time is up", "the client gives up by itself", (159,), deadline),
)
