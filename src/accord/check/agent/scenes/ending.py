"""Close and delete, and what becomes of sessions that are not there."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.scenes.listing import entries, ids
from accord.check.agent.stage import Stage
from accord.check.agent.talk import Talk
from accord.check.agent.tries import put
from accord.check.conversation import Answer
from accord.trace.exchange import at

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


def _named(answer: Answer, session: str) -> bool:
    return answer.code == -32002 and at(answer.line.message, "error", "data", "sessionId") == session


def _note(talk: Talk, answer: Answer, session: str) -> None:
    bad = f"{answer.asked.method} gave {answer.says}; expected -32002 with the sessionId in its data"
    talk.ledger.judge(383, _named(answer, session), "-32002 with the session", bad, answer.shown)


async def closing(stage: Stage) -> None:
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


async def unknown(stage: Stage) -> None:
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


async def deleting(stage: Stage) -> None:
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


SCENES: Final = (
    Scene("closing", "session/close in the middle of a turn", (34, 114, 115, 383), closing, _CLOSE),
    Scene("sessions that are not there", "every method with `nope`", (152, 383), unknown),
    Scene("deleting", "delete, list, delete again", (34, 127, 128), deleting, _DELETE),
)
