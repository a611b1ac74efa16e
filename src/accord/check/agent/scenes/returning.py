"""Load and resume: what comes back, in which order, and what must not come."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import Stage
from accord.check.agent.talk import Talk, text_of
from accord.check.agent.tries import Try, play
from accord.check.conversation import Answer
from accord.check.scene import Missing

_LOAD: Final = "loadSession"
_RESUME: Final = "sessionCapabilities.resume"


async def _again(stage: Stage, method: str, act: str, **values: str) -> tuple[Talk, str, str, Answer]:
    """A session with one turn, opened again by another process; or, where that fails, by the same one."""
    talk, session = await stage.open()
    first = await stage.play(talk, session, act, **values)
    await talk.leave()
    again = await stage.begin(name="again")
    answer = await again.call(method, _params(session, stage))
    if not answer.ok:
        again, session = await stage.open()
        first = await stage.play(again, session, act, **values)
        answer = await again.call(method, _params(session, stage))
    return again, session, first.text, answer


def _params(session: str, stage: Stage) -> dict[str, Any]:
    return {"sessionId": session, "cwd": stage.cwd, "mcpServers": []}


async def loading(stage: Stage) -> None:
    prompt = stage.act("talk").filled()
    talk, session, said, answer = await _again(stage, "session/load", "talk")
    if not answer.ok:
        stage.ledger.broken(104, f"a session of its own cannot be loaded: {answer.says}", answer.shown)
        return
    await talk.barrier()
    replay = [
        line
        for line in talk.lines[answer.asked.number :]
        if line.sender == "agent" and line.session == session and line.update
    ]
    user, agent = text_of(replay, "user_message_chunk"), text_of(replay, "agent_message_chunk")
    if said.strip():
        missing = [
            name
            for name, part, whole in (("user", prompt, user), ("agent", said, agent))
            if part.strip() not in whole
        ]
        bad = f"the words of the {' and the '.join(missing)} do not come back"
        stage.ledger.judge(104, not missing, "the whole conversation comes back", bad, answer.shown)
    notices = [line for line in replay if line.kind == "notice"]
    bad = "a notice is replayed"
    stage.ledger.judge(288, not notices, "no notice is replayed", bad, [line.shown for line in notices[:1]])
    await talk.barrier()


async def unknown(stage: Stage) -> None:
    talk = await stage.begin()
    row = Try(102, "session/load", {"sessionId": "nope", "cwd": stage.cwd, "mcpServers": []}, "error")
    answers = await play(talk, [row])
    if answers[0].code == -32601:
        stage.ledger.broken(102, "session/load is advertised and not there", answers[0].shown)


async def resuming(stage: Stage) -> None:
    talk, session, _, answer = await _again(stage, "session/resume", "talk")
    if not answer.ok:
        raise Missing(f"a session of its own cannot be resumed: {answer.says}")
    if talk.has("sessionCapabilities.close"):
        await talk.call("session/close", {"sessionId": session})
    bare = await talk.call("session/resume", {"sessionId": session, "cwd": stage.cwd})
    bad = f"resume without mcpServers gave {bare.says}"
    stage.ledger.judge(112, bare.ok, "mcpServers may be left out", bad, bare.shown)


async def remembering(stage: Stage) -> None:
    word = "heliotrope"
    recall = stage.act("recall")
    talk, session, _, answer = await _again(stage, "session/resume", "tell", word=word)
    if not answer.ok:
        raise Missing(f"a session of its own cannot be resumed: {answer.says}")
    turn = await talk.turn(session, recall.filled(word=word))
    if not turn.answer.ok:
        raise Missing(f"the question gave {turn.answer.says}")
    expected = recall.shows or word
    bad = f"it knows nothing of what was said before: {turn.text[:200]!r}"
    stage.ledger.judge(111, expected in turn.text, "it knows what was said before", bad, turn.answer.shown)


SCENES: Final = (
    Scene("loading", "a turn, another process, session/load", (104, 105, 106, 288), loading, _LOAD),
    Scene("loading what is not there", "session/load of `nope`", (102,), unknown, _LOAD),
    Scene("resuming", "a turn, another process, session/resume", (110, 112), resuming, _RESUME),
    Scene("resuming and remembering", "a fact, another process, a question", (111,), remembering, _RESUME),
)
