"""Cases: list, close, delete, archive, title."""

from typing import Any, Final

from accord.check.agent.agent_fixture import AgentCase, AgentFixture, put
from accord.check.agent.agent_turn_rules import is_absolute
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.checked_connection import CallAnswer
from accord.trace.trace_steps import at, listed

# MERGED check.agent.scenes.listing: `session/list`: pages, filters, cursors; looking changes nothing.

_GATE: Final = "sessionCapabilities.list"
_MANY: Final = 60
_MOST: Final = 10_000


async def entries(talk: AgentUnderTest, **params: Any) -> tuple[list[Any], CallAnswer]:
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


async def filters(stage: AgentFixture) -> None:
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


async def pages(stage: AgentFixture) -> None:
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


LIST_CASES: Final = (
    AgentCase("the list", "two folders, filters, twice", (117, 118, 119, 120, 125), filters, _GATE),
    AgentCase("pages of the list", f"a wrong cursor, {_MANY} sessions", (123, 124), pages, _GATE),
)


# MERGED check.agent.scenes.ending: Close and delete, and what becomes of sessions that are not there.

_CLOSE: Final = "sessionCapabilities.close"
_DELETE: Final = "sessionCapabilities.delete"
_PROMPT: Final = [{"type": "text", "text": "hi"}]
_UNKNOWN: Final[tuple[tuple[str, dict[str, Any], str], ...]] = (
    ("session/prompt", {"sessionId": "nope", "prompt": _PROMPT}, ""),
    ("session/load", {"sessionId": "nope", "cwd": "$cwd", "mcpServers": []}, "loadSession"),
    ("session/resume", {"sessionId": "nope", "cwd": "$cwd"}, "sessionCapabilities.resume"),
    ("session/close", {"sessionId": "nope"}, _CLOSE),
    ("session/set_mode", {"sessionId": "nope", "modeId": "x"}, ""),
    ("session/set_config_option", {"sessionId": "nope", "configId": "x", "value": "y"}, ""),
)


def _named(answer: CallAnswer, session: str) -> bool:
    return answer.code == -32002 and at(answer.line.message, "error", "data", "sessionId") == session


def _note(talk: AgentUnderTest, answer: CallAnswer, session: str) -> None:
    bad = f"{answer.asked.method} gave {answer.says}; expected -32002 with the sessionId in its data"
    talk.ledger.judge(383, _named(answer, session), "-32002 with the session", bad, answer.shown)


async def closing(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    asked = await stage.busy(talk, session)
    closed = talk.ask("session/close", {"sessionId": session})
    turn = await talk.turn_of(asked, owes=114, bound=stage.bounds.soon)
    answer = await talk.answer(closed, owes=114, bound=stage.bounds.soon)
    sound = turn.stop == "cancelled" and answer.ok
    bad = f"closed in a turn: the prompt gave {turn.answer.says}, the close {answer.says}"
    stage.ledger.judge(114, sound, "the turn is cancelled first", bad, (*turn.answer.shown, *answer.shown))
    after = await talk.call("session/prompt", {"sessionId": session, "prompt": _PROMPT})
    bad = f"a prompt in a closed session gave {after.says}"
    if stage.ledger.judge(115, not after.ok, "a closed session refuses prompts", bad, after.shown):
        _note(talk, after, session)


async def unknown(stage: AgentFixture) -> None:
    talk = await stage.begin()
    for method, params, gate in _UNKNOWN:
        if gate and not talk.has(gate):
            continue
        answer = await talk.call(method, put(params, {"cwd": stage.cwd}))
        if method == "session/prompt":
            bad = f"a prompt in the session `nope` gave {answer.says}"
            stage.ledger.judge(152, not answer.ok, "an unknown session is refused", bad, answer.shown)
        missing = answer.code == -32601 and not gate
        if not answer.ok and not missing:
            _note(talk, answer, "nope")


async def deleting(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    if stage.can("talk"):
        await stage.play(talk, session, "talk")
    if talk.has(_CLOSE):
        await talk.call("session/close", {"sessionId": session})
    before = ids((await entries(talk))[0]) if talk.has("sessionCapabilities.list") else []
    first = await talk.call("session/delete", {"sessionId": session})
    if session in before:
        after, answer = await entries(talk)
        bad = "the deleted session is still listed"
        stage.ledger.judge(127, session not in ids(after), "it is gone from the list", bad, answer.shown)
    else:
        stage.ledger.unseen(127, f"the session was not listed before; delete gave {first.says}")
    for id in (session, "nope"):
        answer = await talk.call("session/delete", {"sessionId": id})
        bad = f"deleting {'again' if id == session else 'what is not there'} gave {answer.says}"
        stage.ledger.judge(128, answer.ok, "deleting what is gone succeeds", bad, answer.shown)


CLOSE_CASES: Final = (
    AgentCase("closing", "session/close in the middle of a turn", (34, 114, 115, 383), closing, _CLOSE),
    AgentCase("sessions that are not there", "every method with `nope`", (152, 383), unknown),
    AgentCase("deleting", "delete, list, delete again", (34, 127, 128), deleting, _DELETE),
)


# MERGED check.agent.scenes.archive: Archived sessions.

_ARCHIVE_GATE: Final = "sessionCapabilities.archive"


async def _shown(talk: AgentUnderTest, **params: Any) -> set[str]:
    return set(ids((await entries(talk, **params))[0]))


async def archiving(stage: AgentFixture) -> None:
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


async def _back(stage: AgentFixture, talk: AgentUnderTest, session: str) -> None:
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


async def busy(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    asked = await stage.busy(talk, session)
    archived = talk.ask("session/archive", {"sessionId": session})
    turn = await talk.turn_of(asked, owes=333, bound=stage.bounds.soon)
    answer = await talk.answer(archived, owes=333, bound=stage.bounds.soon)
    bad = f"archived in a turn: the prompt gave {turn.answer.says}, archive {answer.says}"
    sound = turn.stop == "cancelled" and answer.ok
    stage.ledger.judge(333, sound, "the turn is cancelled first", bad, (*turn.answer.shown, *answer.shown))


ARCHIVE_CASES: Final = (
    AgentCase(
        "archiving",
        "archive, list with every filter, unarchive",
        (331, 332, 334, 335, 336, 337, 338),
        archiving,
        _ARCHIVE_GATE,
    ),
    AgentCase("archiving a busy session", "archive in the middle of a turn", (333,), busy, _ARCHIVE_GATE),
)


# MERGED check.agent.scenes.titles: The status and the title of a session.

_STATUS: Final = "sessionCapabilities.status"
_TITLE: Final = "sessionCapabilities.title"
_GIVEN: Final = "A title of the check"


async def _title(talk: AgentUnderTest, session: str) -> Any:
    found, _ = await entries(talk)
    return next((at(one, "title") for one in found if at(one, "sessionId") == session), None)


async def status(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    first = await talk.call("session/status", {"sessionId": session})
    told = at(first.result, "status")
    stage.ledger.judge(343, told == "open", "open in memory", f"an open session is {told!r}", first.shown)
    if talk.has("sessionCapabilities.close"):
        await talk.call("session/close", {"sessionId": session})
        closed = await talk.call("session/status", {"sessionId": session})
        told = at(closed.result, "status")
        stage.ledger.judge(
            343, told == "saved", "saved once closed", f"a closed session is {told!r}", closed.shown
        )
        again = await talk.call("session/status", {"sessionId": session})
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        after = await talk.call("session/prompt", prompt)
        sound = again.result == closed.result and not after.ok
        bad = "session/status opened the session" if after.ok else f"it says {again.says} the second time"
        stage.ledger.judge(342, sound, "it changes nothing", bad, (*again.shown, after.line.shown))
    answer = await talk.call("session/status", {"sessionId": "nope"})
    named = answer.code == -32002 and at(answer.line.message, "error", "data", "sessionId") == "nope"
    bad = f"the status of `nope` gave {answer.says}; expected -32002 with the sessionId in its data"
    stage.ledger.judge(344, named, "unknown sessions are refused", bad, answer.shown)


async def titles(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    answer = await talk.call("session/set_title", {"sessionId": session, "title": _GIVEN})
    stored = at(answer.result, "title")
    bad = f"session/set_title gave {answer.says}"
    if stage.ledger.judge(347, stored == _GIVEN, "it gives the stored title", bad, answer.shown):
        shown = await _title(talk, session)
        stage.ledger.judge(
            347, shown == stored, "the list shows it", f"the list shows {shown!r}", answer.shown
        )
    for title in ({}, {"title": None}, {"title": "   "}):
        answer = await talk.call("session/set_title", {"sessionId": session, **title})
        bad = f"the title {title} gave {answer.says}; expected -32602"
        stage.ledger.judge(348, answer.code == -32602, "empty titles are refused", bad, answer.shown)
    answer = await talk.call("session/set_title", {"sessionId": "nope", "title": "x"})
    bad = f"the title of `nope` gave {answer.says}; expected -32002"
    stage.ledger.judge(348, answer.code == -32002, "unknown sessions are refused", bad, answer.shown)
    await stage.play(talk, session, "talk")
    shown = await _title(talk, session)
    bad = f"after a turn the title is {shown!r}"
    if all(note.outcome == "kept" for note in stage.ledger.of(347)):
        stage.ledger.judge(349, shown == _GIVEN, "a given title stays", bad)


TITLE_CASES: Final = (
    AgentCase("status", "open, closed, unknown", (342, 343, 344), status, _STATUS),
    AgentCase("titles", "set, list, a turn; titles that are none", (347, 348, 349), titles, _TITLE),
)


CASES: Final = (
    *LIST_CASES,
    *CLOSE_CASES,
    *ARCHIVE_CASES,
    *TITLE_CASES,
)
