"""Archived sessions."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.scenes.listing import entries, ids
from accord.check.agent.stage import Stage
from accord.check.agent.talk import Talk

_GATE: Final = "sessionCapabilities.archive"
_PROMPT: Final = [{"type": "text", "text": "hi"}]


async def _shown(talk: Talk, **params: Any) -> set[str]:
    return set(ids((await entries(talk, **params))[0]))


async def archiving(stage: Stage) -> None:
    talk, session = await stage.open()
    other = await stage.session(talk)
    for id in (session, other):
        await stage.play(talk, id, "talk")
    for _ in range(2):
        answer = await talk.call("session/archive", {"sessionId": session})
        stage.ledger.judge(334, answer.ok, "twice is as once", f"archive gave {answer.says}", answer.shown)
    default, only, both = (
        await _shown(talk),
        await _shown(talk, archived="only"),
        await _shown(talk, archived="include"),
    )
    stage.ledger.judge(
        332, session not in default, "it is hidden", "an archived session is in the default list"
    )
    sound = session in only and other not in only and {session, other} <= both and other in default
    stage.ledger.judge(336, sound, "exclude, only, include", "the filter `archived` shows the wrong sessions")
    mine = await _shown(talk, archived="only", cwd=str(stage.extra))
    stage.ledger.judge(336, not mine, "together with a folder", "the filters do not work together")
    for wrong in ("zzz", 5):
        answer = await talk.call("session/list", {"archived": wrong})
        bad = f"archived: {wrong!r} gave {answer.says}; expected -32602"
        stage.ledger.judge(337, answer.code == -32602, "wrong filters are refused", bad, answer.shown)
    await _back(stage, talk, session)
    for method in ("session/archive", "session/unarchive"):
        answer = await talk.call(method, {"sessionId": "nope"})
        bad = f"{method} of `nope` gave {answer.says}; expected -32002"
        stage.ledger.judge(334, answer.code == -32002, "unknown sessions are refused", bad, answer.shown)


async def _back(stage: Stage, talk: Talk, session: str) -> None:
    for _ in range(2):
        answer = await talk.call("session/unarchive", {"sessionId": session})
        stage.ledger.judge(334, answer.ok, "twice is as once", f"unarchive gave {answer.says}", answer.shown)
    back = session in await _shown(talk)
    stage.ledger.judge(332, back, "it comes back", "an unarchived session is not in the list")
    after = await talk.call("session/prompt", {"sessionId": session, "prompt": _PROMPT})
    bad = f"a prompt right after unarchive gave {after.says}"
    stage.ledger.judge(335, not after.ok, "unarchive opens nothing", bad, after.shown)
    if talk.has("loadSession"):
        answer = await talk.call("session/load", {"sessionId": session, "cwd": stage.cwd, "mcpServers": []})
        bad = f"after unarchive, load gave {answer.says}"
        stage.ledger.judge(332, answer.ok, "and can be loaded", bad, answer.shown)


async def busy(stage: Stage) -> None:
    talk, session = await stage.open()
    asked = await stage.busy(talk, session)
    archived = talk.ask("session/archive", {"sessionId": session})
    turn = await talk.turn_of(asked, owes=333, bound=stage.bounds.soon)
    answer = await talk.answer(archived, owes=333, bound=stage.bounds.soon)
    bad = f"archived in a turn: the prompt gave {turn.answer.says}, archive {answer.says}"
    sound = turn.stop == "cancelled" and answer.ok
    stage.ledger.judge(333, sound, "the turn is cancelled first", bad, (*turn.answer.shown, *answer.shown))


SCENES: Final = (
    Scene(
        "archiving",
        "archive, list with every filter, unarchive",
        (331, 332, 334, 335, 336, 337, 338),
        archiving,
        _GATE,
    ),
    Scene("archiving a busy session", "archive in the middle of a turn", (333,), busy, _GATE),
)
