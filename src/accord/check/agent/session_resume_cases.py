"""Cases: load, resume, fork, system prompt."""

from typing import Any, Final

from accord.check.agent.agent_fixture import AgentCase, AgentFixture, CallCase, play
from accord.check.agent.agent_under_test import AgentUnderTest, text_of
from accord.check.agent.session_list_cases import entries, ids
from accord.check.checked_connection import CallAnswer
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at

# MERGED check.agent.scenes.returning: Load and resume: what comes back, in which order, and what must not come.

_LOAD: Final = "loadSession"
_RESUME: Final = "sessionCapabilities.resume"


async def _again(
    stage: AgentFixture, method: str, act: str, **values: str
) -> tuple[AgentUnderTest, str, str, CallAnswer]:
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


def _params(session: str, stage: AgentFixture) -> dict[str, Any]:
    return {"sessionId": session, "cwd": stage.cwd, "mcpServers": []}


async def loading(stage: AgentFixture) -> None:
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


async def unknown(stage: AgentFixture) -> None:
    talk = await stage.begin()
    row = CallCase(102, "session/load", {"sessionId": "nope", "cwd": stage.cwd, "mcpServers": []}, "error")
    answers = await play(talk, [row])
    if answers[0].code == -32601:
        stage.ledger.broken(102, "session/load is advertised and not there", answers[0].shown)


async def resuming(stage: AgentFixture) -> None:
    talk, session, _, answer = await _again(stage, "session/resume", "talk")
    if not answer.ok:
        raise CaseUnavailable(f"a session of its own cannot be resumed: {answer.says}")
    if talk.has("sessionCapabilities.close"):
        await talk.call("session/close", {"sessionId": session})
    bare = await talk.call("session/resume", {"sessionId": session, "cwd": stage.cwd})
    bad = f"resume without mcpServers gave {bare.says}"
    stage.ledger.judge(112, bare.ok, "mcpServers may be left out", bad, bare.shown)


async def remembering(stage: AgentFixture) -> None:
    word = "heliotrope"
    recall = stage.act("recall")
    talk, session, _, answer = await _again(stage, "session/resume", "tell", word=word)
    if not answer.ok:
        raise CaseUnavailable(f"a session of its own cannot be resumed: {answer.says}")
    turn = await talk.turn(session, recall.filled(word=word))
    if not turn.answer.ok:
        raise CaseUnavailable(f"the question gave {turn.answer.says}")
    expected = recall.shows or word
    bad = f"it knows nothing of what was said before: {turn.text[:200]!r}"
    stage.ledger.judge(111, expected in turn.text, "it knows what was said before", bad, turn.answer.shown)


LOAD_CASES: Final = (
    AgentCase("loading", "a turn, another process, session/load", (104, 105, 106, 288), loading, _LOAD),
    AgentCase("loading what is not there", "session/load of `nope`", (102,), unknown, _LOAD),
    AgentCase("resuming", "a turn, another process, session/resume", (110, 112), resuming, _RESUME),
    AgentCase(
        "resuming and remembering", "a fact, another process, a question", (111,), remembering, _RESUME
    ),
)


# MERGED check.agent.scenes.forks: Fork, and the system prompt, which may come with every way to open a session.

_SYSTEM: Final = "sessionCapabilities.systemPrompt"
_MARK: Final = "periwinkle"


async def forking(stage: AgentFixture) -> None:
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


async def system_prompt(stage: AgentFixture) -> None:
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


async def obeyed(stage: AgentFixture) -> None:
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


async def overridden(stage: AgentFixture) -> None:
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
        raise CaseUnavailable("the agent asked for no permission")
    bad = f"{asked[0]} questions without override, {asked[1]} with it"
    stage.ledger.judge(355, asked[0] == asked[1], "permissions stay as they are", bad, second.answer.shown)


FORK_CASES: Final = (
    AgentCase(
        "forking", "fork, a prompt in the fork, the source again", (281,), forking, "sessionCapabilities.fork"
    ),
    AgentCase(
        "system prompts that do not fit", "unknown modes, images, a bare text", (353,), system_prompt, _SYSTEM
    ),
    AgentCase(
        "a system prompt", "a mark in every answer, on new, load, resume and fork", (352,), obeyed, _SYSTEM
    ),
    AgentCase(
        "another system prompt", "the permission act with and without override", (355,), overridden, _SYSTEM
    ),
)


CASES: Final = (
    *LOAD_CASES,
    *FORK_CASES,
)
