"""`session/list`: pages, filters, cursors; looking changes nothing."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import Stage
from accord.check.agent.talk import Talk
from accord.check.agent.watch.toolcalls import is_absolute
from accord.check.conversation import Answer
from accord.trace.exchange import at, listed

_GATE: Final = "sessionCapabilities.list"
_MANY: Final = 60
_MOST: Final = 10_000


async def entries(talk: Talk, **params: Any) -> tuple[list[Any], Answer]:
    """All entries, over all pages, and the last answer."""
    found: list[Any] = []
    cursor: Any = None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        answer = await talk.call("session/list", {**params, **more})
        found += listed(answer.result, "sessions")
        cursor = at(answer.result, "nextCursor")
        if cursor is None or len(found) > _MOST:
            return found, answer


def ids(found: list[Any]) -> list[str]:
    """Their ids, in order."""
    return [str(at(one, "sessionId")) for one in found]


async def filters(stage: Stage) -> None:
    talk, session = await stage.open()
    other = await stage.session(talk, cwd=str(stage.extra))
    if stage.can("talk"):  # some agents list only sessions in which something was said
        for id in (session, other):
            await stage.play(talk, id, "talk")
    found, answer = await entries(talk)
    first = next(line for line in talk.lines if line.method == "session/list")
    page = (await talk.answer(first)).result
    bad = f"session/list gave {answer.says}"
    stage.ledger.judge(117, isinstance(at(page, "sessions"), list), "a list", bad, answer.shown)
    for entry in found:
        sound = isinstance(at(entry, "sessionId"), str) and is_absolute(at(entry, "cwd"))
        bad = f"the entry {str(entry)[:100]}"
        stage.ledger.judge(120, sound, "entries have an id and an absolute folder", bad, answer.shown)
    nothing, answer = await entries(talk, cwd="/nonexistent/check")
    bad = f"a folder without sessions gave {answer.says}"
    stage.ledger.judge(118, answer.ok and nothing == [], "an empty list", bad, answer.shown)
    mine, answer = await entries(talk, cwd=stage.cwd)
    foreign = [one for one in mine if at(one, "cwd") != stage.cwd]
    bad = (
        "sessions of other folders come through the filter"
        if foreign
        else "the session of this folder is missing"
    )
    if {session, other} <= set(ids(found)):
        good = not foreign and session in ids(mine)
        stage.ledger.judge(119, good, "only sessions of the folder", bad, answer.shown)
    twice, answer = await entries(talk)
    bad = "a second look shows something else"
    stage.ledger.judge(125, ids(twice) == ids(found), "looking changes nothing", bad, answer.shown)


async def pages(stage: Stage) -> None:
    talk = await stage.begin()
    answer = await talk.call("session/list", {"cursor": "garbage"})
    bad = f"the cursor `garbage` gave {answer.says}"
    stage.ledger.judge(123, not answer.ok, "a wrong cursor is refused", bad, answer.shown)
    for _ in range(_MANY):
        await stage.session(talk)
    answer = await talk.call("session/list", {})
    count = len(listed(answer.result, "sessions"))
    if at(answer.result, "nextCursor") is not None:
        stage.ledger.kept(124, f"pages of {count}", answer.shown[:1])
    elif count < _MANY:
        stage.ledger.unseen(124, f"{count} of {_MANY} empty sessions are listed")
    else:
        stage.ledger.unseen(124, f"{count} sessions come on one page; that may still be bounded")


SCENES: Final = (
    Scene("the list", "two folders, filters, twice", (117, 118, 119, 120, 125), filters, _GATE),
    Scene("pages of the list", f"a wrong cursor, {_MANY} sessions", (123, 124), pages, _GATE),
)
