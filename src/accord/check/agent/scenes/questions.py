"""Elicitation: forms and pages, for clients that have them, and every way to answer."""

from typing import Final

from accord.check.agent.desk import Reply, Server, error, filled_in, result
from accord.check.agent.scene import Scene
from accord.check.agent.stage import Stage, without
from accord.check.agent.talk import Turn
from accord.check.lines import Line
from accord.check.scene import Missing
from accord.check.script import fill

_ANSWER: Final = "turquoise"


async def _asked(stage: Stage, reply: Server | None, act: str = "ask") -> Turn:
    """The ask act in a new session, with this answer to the form."""
    talk = stage.talks[-1] if stage.talks else await stage.begin()
    session = await stage.session(talk)
    talk.desk.answers.pop("elicitation/create", None)
    if reply is not None:
        talk.desk.answers["elicitation/create"] = reply
    turn = await stage.play(talk, session, act)
    if not turn.asked("elicitation/create"):
        raise Missing("the agent asked nothing")
    return turn


def _always(reply: Reply) -> Server:
    return lambda line: reply


async def forms(stage: Stage) -> None:
    replies: tuple[tuple[str, Reply], ...] = (
        ("decline", result({"action": "decline"})),
        ("cancel", result({"action": "cancel"})),
        ("an error", error(-32603, "Internal error")),
    )
    for name, reply in replies:
        turn = await _asked(stage, _always(reply))
        bad = f"after {name} the turn gave {turn.answer.says}"
        stage.ledger.judge(274, turn.answer.ok, "the turn ends in good order", bad, turn.answer.shown)


async def contents(stage: Stage) -> None:
    omitted = await _asked(stage, lambda line: result({"action": "accept"}))
    null = await _asked(stage, lambda line: result({"action": "accept", "content": None}))
    alike = omitted.answer.ok == null.answer.ok and omitted.stop == null.stop
    bad = f"without content: {omitted.answer.says}; with null: {null.answer.says}"
    shown = (omitted.answer.line.shown, null.answer.line.shown)
    stage.ledger.judge(275, alike, "left out and null are alike", bad, shown)


async def actions(stage: Stage) -> None:
    def unknown(line: Line) -> Reply:
        return result({"action": "_x", "content": filled_in(line, _ANSWER)})

    act = stage.act("ask")
    if not act.shows:
        raise Missing("the script does not say how an answer shows")
    shows = fill(act.shows, {"answer": _ANSWER})
    accepted = await _asked(stage, None)
    if shows not in accepted.all_text:
        raise Missing("an accepted answer did not show")
    turn = await _asked(stage, unknown)
    bad = "an unknown action counts as acceptance"
    stage.ledger.judge(
        276, shows not in turn.all_text, "an unknown action is no acceptance", bad, turn.answer.shown
    )


async def poorer(stage: Stage) -> None:
    for lacking in ("elicitation.form", "elicitation.url", "elicitation"):
        talk, session = await stage.open(without(lacking))
        for act in ("ask", "ask_url"):
            if stage.can(act):
                await stage.play(talk, session, act)


async def pages(stage: Stage) -> None:
    await _asked(stage, None, "ask_url")


SCENES: Final = (
    Scene("forms", "decline, cancel, an error", (262, 263, 264, 265, 274), forms),
    Scene("forms without content", "content left out, and null", (275,), contents),
    Scene("forms and unknown actions", "`_x` with an answer in it", (276,), actions),
    Scene("clients without forms or pages", "the same acts, one mode less", (260,), poorer),
    Scene("pages", "the user is sent to a web page", (267, 268, 269), pages),
)
