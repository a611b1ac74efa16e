"""Fork, and the system prompt, which may come with every way to open a session."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.scenes.listing import entries, ids
from accord.check.agent.stage import Stage
from accord.check.agent.talk import text_of
from accord.check.scene import Missing
from accord.trace.exchange import at

_SYSTEM: Final = "sessionCapabilities.systemPrompt"
_MARK: Final = "periwinkle"


async def forking(stage: Stage) -> None:
    talk, source = await stage.open()
    await stage.play(talk, source, "echo", text="before")
    answer = await talk.call("session/fork", {"sessionId": source, "cwd": stage.cwd, "mcpServers": []})
    fork = at(answer.result, "sessionId")
    fresh = isinstance(fork, str) and fork != source
    if not stage.ledger.judge(281, fresh, "a fork has its own id", f"fork gave {answer.says}", answer.shown):
        return
    turn = await talk.turn(fork, stage.act("echo").filled(text=_MARK))
    if not turn.answer.ok:
        stage.ledger.broken(281, f"a prompt in the fork gave {turn.answer.says}", turn.answer.shown)
    elif talk.has("loadSession"):
        if talk.has("sessionCapabilities.close"):
            await talk.call("session/close", {"sessionId": source})
        load = await talk.call("session/load", {"sessionId": source, "cwd": stage.cwd, "mcpServers": []})
        replay = [line for line in talk.lines[load.asked.number :] if line.session == source]
        crossed = _MARK in text_of(replay, "user_message_chunk")
        bad = "what was said in the fork stands in the source"
        if load.ok:
            stage.ledger.judge(281, not crossed, "the source is untouched", bad, load.shown)


def _system(mode: Any = "append", content: Any = None) -> dict[str, Any]:
    blocks = (
        [{"type": "text", "text": f"End every answer with the word {_MARK}."}] if content is None else content
    )
    return {"systemPrompt": {"mode": mode, "content": blocks}}


async def system_prompt(stage: Stage) -> None:
    """Unusable ones are refused, and leave no session behind."""
    talk = await stage.begin()
    tries: list[dict[str, Any]] = [
        _system("_x"),
        _system("append", [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]),
        {"systemPrompt": "text"},
    ]
    if not talk.has(f"{_SYSTEM}.mode.override"):
        tries.append(_system("override"))
    lists = talk.has("sessionCapabilities.list")
    before = ids((await entries(talk))[0]) if lists else []
    for more in tries:
        answer = await talk.new(stage.cwd, **more)
        bad = f"the system prompt {str(more['systemPrompt'])[:80]} gave {answer.says}; expected an error"
        stage.ledger.judge(353, not answer.ok, "what cannot be applied is refused", bad, answer.shown)
    after = ids((await entries(talk))[0]) if lists else []
    if all(note.outcome == "kept" for note in stage.ledger.of(353)):
        bad = "a refused system prompt left a session behind"
        stage.ledger.judge(353, after == before, "and no session is left behind", bad)


async def obeyed(stage: Stage) -> None:
    act = stage.act("obey")
    talk = await stage.begin()
    session = await stage.session(talk, **_system())
    shows = act.shows or _MARK
    turn = await talk.turn(session, act.filled())
    stage.ledger.judge(352, shows in turn.text, "on new", "on new it is not applied", turn.answer.shown)
    again: dict[str, Any] = {"sessionId": session, "cwd": stage.cwd, "mcpServers": [], **_system()}
    gates = (
        ("session/load", "loadSession"),
        ("session/resume", "sessionCapabilities.resume"),
        ("session/fork", "sessionCapabilities.fork"),
    )
    for method, gate in gates:
        if talk.has(gate):
            answer = await talk.call(method, again)
            opened = at(answer.result, "sessionId") or session
            turn = await talk.turn(opened, act.filled())
            bad = f"on {method} it is not applied"
            stage.ledger.judge(352, shows in turn.text, f"on {method}", bad, turn.answer.shown)


async def overridden(stage: Stage) -> None:
    """With another system prompt, tools and permissions are what they were."""
    talk = await stage.begin()
    if not talk.has(f"{_SYSTEM}.mode.override"):
        stage.ledger.absent(355, "it does not advertise override")
        return
    plain = await stage.session(talk)
    first = await stage.play(talk, plain, "permission", file="plain.txt")
    session = await stage.session(talk, **_system("override"))
    second = await stage.play(talk, session, "permission", file="other.txt")
    asked = [len(turn.asked("session/request_permission")) for turn in (first, second)]
    if not asked[0]:
        raise Missing("the agent asked for no permission")
    bad = f"{asked[0]} questions without override, {asked[1]} with it"
    stage.ledger.judge(355, asked[0] == asked[1], "permissions stay as they are", bad, second.answer.shown)


SCENES: Final = (
    Scene(
        "forking", "fork, a prompt in the fork, the source again", (281,), forking, "sessionCapabilities.fork"
    ),
    Scene(
        "system prompts that do not fit", "unknown modes, images, a bare text", (353,), system_prompt, _SYSTEM
    ),
    Scene(
        "a system prompt", "a mark in every answer, on new, load, resume and fork", (352,), obeyed, _SYSTEM
    ),
    Scene(
        "another system prompt", "the permission act with and without override", (355,), overridden, _SYSTEM
    ),
)
