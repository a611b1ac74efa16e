"""Cancelling: a turn, a single request, a question of permission, and nothing at all."""

from typing import Final

from accord.check.agent.desk import CANCELLED, HOLD, Reply, error
from accord.check.agent.scene import Scene
from accord.check.agent.stage import Stage, without
from accord.check.agent.talk import Turn
from accord.check.lines import Line
from accord.check.scene import Missing


def _judge(stage: Stage, turn: Turn) -> None:
    answer = turn.answer
    if not answer.ok:
        stage.ledger.broken(162, f"a cancelled turn gave {answer.says}", answer.shown)
        return
    stage.ledger.kept(162, "a cancelled turn is no error", answer.shown)
    bad = f"a cancelled turn ended with {turn.stop!r}"
    stage.ledger.judge(161, turn.stop == "cancelled", "a cancelled turn says so", bad, answer.shown)


async def turns(stage: Stage) -> None:
    """With terminals at the client, and without."""
    for capabilities in (None, without("terminal")):
        talk, session = await (stage.open() if capabilities is None else stage.open(capabilities))
        asked = await stage.busy(talk, session)
        talk.cancel(session)
        soon = await talk.until(
            lambda line, id=asked.id: line.is_answer and line.id == id, since=asked.number, bound=stage.bounds.soon
        )  # fmt: skip
        bad = f"{stage.bounds.soon:g} seconds after the cancel the turn goes on"
        stage.ledger.judge(163, soon is not None, "the turn ends soon", bad, [asked.shown])
        if soon is None:
            return
        turn = await talk.turn_of(asked, owes=161)
        _judge(stage, turn)
        talk.desk.stay = False
        if stage.can("talk"):
            await stage.works(talk, await stage.session(talk))
            again = await talk.turn(session, stage.act("talk").filled(), owes=170)
            bad = f"a prompt after a cancelled turn gave {again.answer.says}"
            worked = again.answer.ok and again.stop != "cancelled"
            stage.ledger.judge(170, worked, "the session goes on", bad, again.answer.shown)
        await talk.barrier()


async def idle(stage: Stage) -> None:
    talk, session = await stage.open()
    await stage.works(talk, session)
    talk.cancel(session)
    turn = await talk.turn(session, stage.act("talk").filled(), owes=168)
    bad = f"after a cancel without a turn a prompt gave {turn.answer.says}"
    worked = turn.answer.ok and turn.stop != "cancelled"
    stage.ledger.judge(168, worked, "it is harmless", bad, turn.answer.shown)


async def requests(stage: Stage) -> None:
    talk, session = await stage.open()
    asked = await stage.busy(talk, session)
    talk.notify("$/cancel_request", {"requestId": asked.id})
    line = await talk.until(
        lambda line: line.is_answer and line.id == asked.id, since=asked.number, bound=stage.bounds.soon
    )
    if line is None:
        talk.cancel(session)
        await talk.turn_of(asked, owes=50, bound=stage.bounds.soon)
        raise Missing("it does not act on $/cancel_request, which it may")
    answer = await talk.answer(asked, owes=50)
    sound = answer.ok or answer.code == -32800
    bad = f"$/cancel_request gave {answer.says}; expected a result or -32800"
    stage.ledger.judge(50, sound, f"it gave {answer.says}", bad, answer.shown)
    await talk.barrier()


async def questions(stage: Stage) -> None:
    """A turn is cancelled while a question of permission is open; both ways to answer that question will do."""
    answers = (CANCELLED, error(-32800, "Request cancelled"))
    talk = await stage.begin()
    for reply in answers:
        session = await stage.session(talk)
        talk.desk.answers["session/request_permission"] = _hold
        asked = talk.prompt(session, stage.act("permission").filled(file="cancelled.txt"))
        question = await stage.question(talk, asked)
        talk.cancel(session)
        talk.reply(question, reply)
        turn = await talk.turn_of(asked, owes=169, bound=stage.bounds.soon)
        bad = f"after a cancelled question the turn gave {turn.answer.says}"
        if turn.answer.ok:
            _judge(stage, turn)
        stage.ledger.judge(169, turn.answer.ok, "the turn ends in good order", bad, turn.answer.shown)


def _hold(line: Line) -> Reply:
    return HOLD


SCENES: Final = (
    Scene("a turn is cancelled", "session/cancel while it is busy", (161, 162, 163, 164, 170, 257), turns),
    Scene("nothing is cancelled", "session/cancel without a turn", (168,), idle),
    Scene("a request is cancelled", "$/cancel_request for a prompt", (50,), requests),
    Scene("cancelled at a question", "session/cancel while permission is asked for", (169,), questions),
)
