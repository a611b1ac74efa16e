"""Cases: load, resume, fork, system prompt."""

from typing import Any, Final

from accord.check.agent.agent_fixture import AgentCase, AgentFixture, CallCase, check_calls
from accord.check.agent.agent_under_test import AgentUnderTest, text_of
from accord.check.agent.session_list_cases import list_sessions, session_ids
from accord.check.checked_connection import CallAnswer
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at

_LOAD: Final = "loadSession"
_RESUME: Final = "sessionCapabilities.resume"


async def _reopen(
    fixture: AgentFixture, method: str, action: str, **values: str
) -> tuple[AgentUnderTest, str, str, CallAnswer]:
    """Reopen a session with one turn in a new process, or in the same process if that fails."""
    agent, session = await fixture.open_session()
    first = await fixture.run_action(agent, session, action, **values)
    await agent.close()
    reopened = await fixture.start_agent(name="again")
    answer = await reopened.call(method, _params(session, fixture))
    if not answer.ok:
        reopened, session = await fixture.open_session()
        first = await fixture.run_action(reopened, session, action, **values)
        answer = await reopened.call(method, _params(session, fixture))
    return reopened, session, first.text, answer


def _params(session: str, fixture: AgentFixture) -> dict[str, Any]:
    return {"sessionId": session, "cwd": fixture.cwd, "mcpServers": []}


async def load_session(fixture: AgentFixture) -> None:
    prompt = fixture.action("talk").filled()
    agent, session, agent_reply, answer = await _reopen(fixture, "session/load", "talk")
    if not answer.ok:
        fixture.notes.add_fail(104, f"its own session cannot be loaded: {answer.summary}", answer.evidence)
        return
    await agent.barrier()
    replay = [
        line
        for line in agent.lines[answer.request.number :]
        if line.sender == "agent" and line.session == session and line.update
    ]
    user_text, agent_text = text_of(replay, "user_message_chunk"), text_of(replay, "agent_message_chunk")
    if agent_reply.strip():
        missing = [
            name
            for name, part, whole in (("user", prompt, user_text), ("agent", agent_reply, agent_text))
            if part.strip() not in whole
        ]
        bad = f"the text of the {' and the '.join(missing)} is not replayed"
        fixture.notes.judge(104, not missing, "the whole conversation is replayed", bad, answer.evidence)
    notices = [line for line in replay if line.kind == "notice"]
    bad = "a notice is replayed"
    fixture.notes.judge(
        288, not notices, "no notice is replayed", bad, [line.evidence for line in notices[:1]]
    )
    await agent.barrier()


async def load_unknown_session(fixture: AgentFixture) -> None:
    agent = await fixture.start_agent()
    row = CallCase(102, "session/load", {"sessionId": "nope", "cwd": fixture.cwd, "mcpServers": []}, "error")
    answers = await check_calls(agent, [row])
    if answers[0].code == -32601:
        fixture.notes.add_fail(102, "session/load is advertised but unknown", answers[0].evidence)


async def resume_session(fixture: AgentFixture) -> None:
    agent, session, _, answer = await _reopen(fixture, "session/resume", "talk")
    if not answer.ok:
        raise CaseUnavailable(f"its own session cannot be resumed: {answer.summary}")
    if agent.advertises("sessionCapabilities.close"):
        await agent.call("session/close", {"sessionId": session})
    bare = await agent.call("session/resume", {"sessionId": session, "cwd": fixture.cwd})
    bad = f"resume without mcpServers gave {bare.summary}"
    fixture.notes.judge(112, bare.ok, "mcpServers may be left out", bad, bare.evidence)


async def resume_keeps_history(fixture: AgentFixture) -> None:
    word = "heliotrope"
    recall = fixture.action("recall")
    agent, session, _, answer = await _reopen(fixture, "session/resume", "tell", word=word)
    if not answer.ok:
        raise CaseUnavailable(f"its own session cannot be resumed: {answer.summary}")
    turn = await agent.run_turn(session, recall.filled(word=word))
    if not turn.answer.ok:
        raise CaseUnavailable(f"the question returned {turn.answer.summary}")
    expected = recall.shows or word
    bad = f"it does not know the earlier text: {turn.text[:200]!r}"
    fixture.notes.judge(111, expected in turn.text, "it knows the earlier text", bad, turn.answer.evidence)


LOAD_CASES: Final = (
    AgentCase("loading", "a turn, another process, session/load", (104, 105, 106, 288), load_session, _LOAD),
    AgentCase("loading an unknown session", "session/load of `nope`", (102,), load_unknown_session, _LOAD),
    AgentCase("resuming", "a turn, another process, session/resume", (110, 112), resume_session, _RESUME),
    AgentCase(
        "resuming and remembering",
        "a fact, another process, a question",
        (111,),
        resume_keeps_history,
        _RESUME,
    ),
)


_SYSTEM_PROMPT: Final = "sessionCapabilities.systemPrompt"
_MARKER: Final = "periwinkle"


async def fork_session(fixture: AgentFixture) -> None:
    agent, source = await fixture.open_session()
    await fixture.run_action(agent, source, "echo", text="before")
    answer = await agent.call("session/fork", {"sessionId": source, "cwd": fixture.cwd, "mcpServers": []})
    fork = at(answer.result, "sessionId")
    is_new = isinstance(fork, str) and fork != source
    if not fixture.notes.judge(
        281, is_new, "a fork has its own id", f"fork gave {answer.summary}", answer.evidence
    ):
        return
    turn = await agent.run_turn(fork, fixture.action("echo").filled(text=_MARKER))
    if not turn.answer.ok:
        fixture.notes.add_fail(281, f"a prompt in the fork gave {turn.answer.summary}", turn.answer.evidence)
    elif agent.advertises("loadSession"):
        if agent.advertises("sessionCapabilities.close"):
            await agent.call("session/close", {"sessionId": source})
        load = await agent.call("session/load", {"sessionId": source, "cwd": fixture.cwd, "mcpServers": []})
        replay = [line for line in agent.lines[load.request.number :] if line.session == source]
        leaked = _MARKER in text_of(replay, "user_message_chunk")
        bad = "text of the fork appears in the source"
        if load.ok:
            fixture.notes.judge(281, not leaked, "the source is untouched", bad, load.evidence)


def _system_prompt(mode: Any = "append", content: Any = None) -> dict[str, Any]:
    blocks = (
        [{"type": "text", "text": f"End every answer with the word {_MARKER}."}]
        if content is None
        else content
    )
    return {"systemPrompt": {"mode": mode, "content": blocks}}


async def invalid_system_prompts(fixture: AgentFixture) -> None:
    agent = await fixture.start_agent()
    prompts: list[dict[str, Any]] = [
        _system_prompt("_x"),
        _system_prompt("append", [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]),
        {"systemPrompt": "text"},
    ]
    if not agent.advertises(f"{_SYSTEM_PROMPT}.mode.override"):
        prompts.append(_system_prompt("override"))
    lists = agent.advertises("sessionCapabilities.list")
    before = session_ids((await list_sessions(agent))[0]) if lists else []
    for more in prompts:
        answer = await agent.new_session(fixture.cwd, **more)
        bad = f"the system prompt {str(more['systemPrompt'])[:80]} gave {answer.summary}; expected an error"
        fixture.notes.judge(353, not answer.ok, "invalid system prompts are refused", bad, answer.evidence)
    after = session_ids((await list_sessions(agent))[0]) if lists else []
    if all(note.outcome == "pass" for note in fixture.notes.for_rule(353)):
        bad = "a refused system prompt left a session behind"
        fixture.notes.judge(353, after == before, "and no session is left behind", bad)


async def system_prompt_is_applied(fixture: AgentFixture) -> None:
    action = fixture.action("obey")
    agent = await fixture.start_agent()
    session = await fixture.new_session(agent, **_system_prompt())
    shows = action.shows or _MARKER
    turn = await agent.run_turn(session, action.filled())
    fixture.notes.judge(352, shows in turn.text, "on new", "on new it is not applied", turn.answer.evidence)
    params: dict[str, Any] = {
        "sessionId": session,
        "cwd": fixture.cwd,
        "mcpServers": [],
        **_system_prompt(),
    }
    gates = (
        ("session/load", "loadSession"),
        ("session/resume", "sessionCapabilities.resume"),
        ("session/fork", "sessionCapabilities.fork"),
    )
    for method, capability in gates:
        if agent.advertises(capability):
            answer = await agent.call(method, params)
            opened = at(answer.result, "sessionId") or session
            turn = await agent.run_turn(opened, action.filled())
            bad = f"on {method} it is not applied"
            fixture.notes.judge(352, shows in turn.text, f"on {method}", bad, turn.answer.evidence)


async def overriding_system_prompt(fixture: AgentFixture) -> None:
    agent = await fixture.start_agent()
    if not agent.advertises(f"{_SYSTEM_PROMPT}.mode.override"):
        fixture.notes.add_not_applicable(355, "it does not advertise override")
        return
    plain = await fixture.new_session(agent)
    first = await fixture.run_action(agent, plain, "permission", file="plain.txt")
    session = await fixture.new_session(agent, **_system_prompt("override"))
    second = await fixture.run_action(agent, session, "permission", file="other.txt")
    counts = [len(turn.requests("session/request_permission")) for turn in (first, second)]
    if not counts[0]:
        raise CaseUnavailable("the agent sent no permission request")
    bad = f"{counts[0]} permission requests without override, {counts[1]} with it"
    fixture.notes.judge(
        355, counts[0] == counts[1], "permissions stay as they are", bad, second.answer.evidence
    )


FORK_CASES: Final = (
    AgentCase(
        "forking",
        "fork, a prompt in the fork, the source again",
        (281,),
        fork_session,
        "sessionCapabilities.fork",
    ),
    AgentCase(
        "invalid system prompts",
        "unknown modes, images, a bare text",
        (353,),
        invalid_system_prompts,
        _SYSTEM_PROMPT,
    ),
    AgentCase(
        "a system prompt",
        "a mark in every answer, on new, load, resume and fork",
        (352,),
        system_prompt_is_applied,
        _SYSTEM_PROMPT,
    ),
    AgentCase(
        "another system prompt",
        "the permission action with and without override",
        (355,),
        overriding_system_prompt,
        _SYSTEM_PROMPT,
    ),
)


CASES: Final = (
    *LOAD_CASES,
    *FORK_CASES,
)
