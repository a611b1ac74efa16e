"""Coming back: lists in pages, loading, resuming, and what must not be asked of agents that cannot."""

from typing import Any, Final

from accord.check.client.desk import Reply, result, without
from accord.check.client.part import Part
from accord.check.client.scene import Scene
from accord.check.client.stage import Stage, Turn
from accord.check.lines import Line
from accord.trace.exchange import at, listed

_CURSOR: Final = 'odd +/="é'
_UNASKED: Final = (
    *("auth", "providers"),
    *(
        f"sessionCapabilities.{name}"
        for name in ("close", "fork", "archive", "status", "title", "systemPrompt")
    ),
)


async def _wants(stage: Stage, rule: int, act: str, *lacks: str, **values: str) -> Part:
    """Make it want something of an agent that lacks it; the watch sees whether it asks all the same."""
    stage.need(act)
    stage.desk.initialized["agentCapabilities"] = without(*lacks)
    stage.desk.blamed = rule
    stage.desk.sessions = [_listed(stage, "old")]
    await stage.start(act, **values)
    part = await stage.agent()
    prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
    if prompt is not None:
        part.stop(prompt)
    await stage.over()
    stage.ledger.kept(rule, "made to want it, it did without")
    return part


def _listed(stage: Stage, id: str, updated: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"sessionId": id, "cwd": str(stage.folder), "title": id, "updatedAt": updated}


async def no_load(stage: Stage) -> None:
    await _wants(stage, 103, "session", "loadSession", "sessionCapabilities.resume", session="old")


async def no_resume(stage: Stage) -> None:
    await _wants(stage, 109, "session", "sessionCapabilities.resume", session="old")


async def no_list(stage: Stage) -> None:
    await _wants(stage, 116, "newest", "sessionCapabilities.list")


async def gated(stage: Stage) -> None:
    """A turn with an agent that has everything, and one with an agent that has nothing of what some clients use unasked."""
    for lacks in ((), _UNASKED):
        stage.desk.initialized["agentCapabilities"] = without(*lacks)
        turn = await stage.turn()
        await stage.finish(turn)
        await stage.client.end()


async def no_delete(stage: Stage) -> None:
    await _wants(stage, 126, "delete", "sessionCapabilities.delete", session="old")


async def loading(stage: Stage) -> None:
    """An agent that can only load, replays, and answers null."""
    stage.need("session")
    stage.desk.initialized["agentCapabilities"] = without("sessionCapabilities.resume")
    old = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "as before"}}
    stage.desk.before["session/load"] = [
        {"method": "session/update", "params": {"sessionId": "old", "update": old}}
    ]

    def load(_: Line) -> Reply:
        stage.desk.session = "old"
        return result(None)

    stage.desk.answers["session/load"] = load
    await stage.start("session", *stage.if_can("roots"), session="old")
    part = await stage.agent()
    asked = await part.hears("session/load")
    if asked is None:
        stage.ledger.unseen(107, "it did not load")
        return
    _roots(stage, asked)
    prompt = await part.prompted(owes=107)
    await stage.finish(Turn(part, prompt), "marigold", (107,))


def _roots(stage: Stage, asked: Line) -> None:
    if stage.can("roots"):
        roots = listed(asked.params, "additionalDirectories")
        bad = f"{asked.method} has the folders {roots}"
        stage.ledger.judge(134, roots == [str(stage.extra)], "all of them", bad, [asked.shown])


async def resuming(stage: Stage) -> None:
    stage.need("session")
    await stage.start("session", *stage.if_can("roots"), session="old")
    part = await stage.agent()
    asked = await part.hears("session/resume", "session/load")
    if asked is None:
        stage.ledger.unseen(134, "it did not take up the session")
        return
    _roots(stage, asked)
    await stage.finish(Turn(part, await part.prompted()), "marigold")


async def paging(stage: Stage) -> None:
    """Two pages; the second is the last."""
    stage.need("newest")
    pages: list[Line] = []

    def page(line: Line) -> Reply:
        pages.append(line)
        if len(pages) == 1:
            return result({"sessions": [_listed(stage, "older")], "nextCursor": _CURSOR})
        return result({"sessions": [_listed(stage, "newer", "2026-02-01T00:00:00Z")]})

    stage.desk.answers["session/list"] = page
    await stage.start("newest")
    part = await stage.agent()
    await part.hears("session/list")
    prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
    if prompt is not None:
        part.stop(prompt)
    await stage.over()
    shown = [line.shown for line in pages]
    if len(pages) > 1:
        cursor = at(pages[1].params, "cursor")
        stage.ledger.judge(122, cursor == _CURSOR, "verbatim", f"the cursor came as {cursor!r}", shown)
        stage.ledger.judge(121, len(pages) == 2, "no further call", "it asked beyond the last page", shown)
        first, second = (at(line.params, "archived") for line in pages[:2])
        if first is not None:
            stage.ledger.judge(339, first == second, "the same", f"{first!r}, then {second!r}", shown)
    elif pages:
        stage.ledger.unseen(122, "it asked for one page only")


SCENES: Final = (
    Scene("no loading", "an old session of an agent that has none", (103,), no_load),
    Scene("no resuming", "an old session of an agent that can only load", (109,), no_resume),
    Scene("no listing", "the newest session of an agent that has no list", (116,), no_list),
    Scene(
        "what it does unasked",
        "a turn with an agent that advertises everything, then with one that does not",
        (86, 113, 282, 295, 330, 341, 346, 351, 357),
        gated,
    ),
    Scene("no deleting", "an old session of an agent that cannot delete", (126,), no_delete),
    Scene("loading", "a replay, and null as the answer", (107, 134), loading),
    Scene("resuming", "an old session, with further folders", (134,), resuming),
    Scene("pages of a list", "two pages, and a cursor with odd characters", (121, 122, 339), paging),
)
