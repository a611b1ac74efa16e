"""The status and the title of a session."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.scenes.listing import entries
from accord.check.agent.stage import Stage
from accord.check.agent.talk import Talk
from accord.trace.exchange import at

_STATUS: Final = "sessionCapabilities.status"
_TITLE: Final = "sessionCapabilities.title"
_GIVEN: Final = "A title of the check"


async def _title(talk: Talk, session: str) -> Any:
    found, _ = await entries(talk)
    return next((at(one, "title") for one in found if at(one, "sessionId") == session), None)


async def status(stage: Stage) -> None:
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


async def titles(stage: Stage) -> None:
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


SCENES: Final = (
    Scene("status", "open, closed, unknown", (342, 343, 344), status, _STATUS),
    Scene("titles", "set, list, a turn; titles that are none", (347, 348, 349), titles, _TITLE),
)
