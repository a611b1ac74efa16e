"""What goes only to clients that know it: notices, compactions, sub-agents."""

from typing import Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import Stage, without
from accord.check.agent.talk import Turn
from accord.check.scene import Missing


async def _both(stage: Stage, act: str, lacking: str, *kinds: str) -> tuple[Turn, Turn]:
    """The act with a client that has the gate, then with one that has not."""
    talk, session = await stage.open()
    rich = await stage.play(talk, session, act)
    if not any(line.kind in kinds for line in talk.lines):
        raise Missing(f"no {kinds[0]} came")
    poor, session = await stage.open(without(lacking))
    return rich, await stage.play(poor, session, act)


async def notices(stage: Stage) -> None:
    rich, poor = await _both(stage, "notice", "session.notices", "notice")
    bad = f"with a notice nobody minds, the turn gave {rich.answer.says}"
    stage.ledger.judge(
        289, rich.answer.ok, "turns go well without anybody minding notices", bad, rich.answer.shown
    )
    told = bool(poor.text.strip())
    bad = "a client without notices learns nothing"
    stage.ledger.judge(313, told, "a client without notices is told in words", bad, poor.answer.shown)


async def compactions(stage: Stage) -> None:
    talk, session = await stage.open()
    await stage.play(talk, session, "talk")
    for _ in range(2):
        await stage.play(talk, session, "compact")
    if not any(line.kind == "compaction_update" for line in talk.lines):
        raise Missing("no compaction came")
    poor, session = await stage.open(without("session.compaction"))
    await stage.play(poor, session, "talk")
    await stage.play(poor, session, "compact")


async def children(stage: Stage) -> None:
    await _both(stage, "delegate", "subagents", "subagent_update")


SCENES: Final = (
    Scene("notices", "the notice act, with and without the gate", (287, 289, 312, 313), notices),
    Scene("compactions", "the compact act, with and without the gate", (291, 318), compactions),
    Scene("sub-agents", "the delegate act, with and without the gate", (374, 375, 376), children),
)
