"""Cases: load, resume, fork, system prompt."""

from typing import Any, Final, NamedTuple

from accord.check.agent.agent_fixture import AgentCases, AgentFixture, CallCase, check_calls
from accord.check.agent.agent_under_test import AgentUnderTest, chunk_text
from accord.check.agent.session_list_cases import list_sessions, own_session_ids
from accord.check.checked_connection import CallAnswer
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at
from accord.trace.wire_line import WireLine

case: Final = AgentCases()


_LOAD_CAPABILITY: Final = "loadSession"
_REPLAYED_TEXT: Final = "text-to-replay"
_PARTLY_REPLAYED: Final = "a part of the agent's text is not replayed, which may be a warning of the agent"
_RESUME_CAPABILITY: Final = "sessionCapabilities.resume"


class _Reopened(NamedTuple):
    """A session that was opened again, and the agent's answers to the prompts before."""

    agent: AgentUnderTest
    session: str
    replies: list[str]
    answer: CallAnswer


async def _reopen(fixture: AgentFixture, method: str, *prompts: str) -> _Reopened:
    """Reopen a session with these prompts in a new process, or in the same process if that fails."""
    agent, session = await fixture.open_session()
    replies = [(await agent.run_turn(session, prompt)).text for prompt in prompts]
    await agent.close()
    agent = await fixture.start_agent(name="again")
    answer = await agent.call(method, _session_params(session, fixture))
    if not answer.ok:
        agent, session = await fixture.open_session()
        replies = [(await agent.run_turn(session, prompt)).text for prompt in prompts]
        answer = await agent.call(method, _session_params(session, fixture))
    return _Reopened(agent, session, replies, answer)


def _session_params(session: str, fixture: AgentFixture) -> dict[str, Any]:
    return {"sessionId": session, "cwd": fixture.cwd, "mcpServers": []}


@case(
    "session.load-replays session.load-answers-last session.load-result-object notice.not-replayed",
    _LOAD_CAPABILITY,
)
async def load_session(fixture: AgentFixture) -> None:
    """Loading a session: a turn, another process, session/load."""
    prompts = [fixture.action("talk").prompt_text()]
    if fixture.has_action("echo"):
        prompts.append(fixture.action("echo").prompt_text(text=_REPLAYED_TEXT))
    agent, session, replies, answer = await _reopen(fixture, "session/load", *prompts)
    if not answer.ok:
        fixture.add_fail(
            "session.load-replays", f"its own session cannot be loaded: {answer.summary}", answer
        )
        return
    await agent.ping()
    replay = [
        line
        for line in agent.lines[answer.request.number :]
        if line.sender == "agent" and line.session == session and line.update
    ]
    if "".join(replies).strip():
        _judge_replay(fixture, answer, replay, prompts, replies)
    notices = [line for line in replay if line.kind == "notice"]
    failure = "a notice is replayed"
    fixture.judge("notice.not-replayed", not notices, "no notice is replayed", failure, *notices[:1])
    await agent.ping()


def _judge_replay(
    fixture: AgentFixture, answer: CallAnswer, replay: list[WireLine], prompts: list[str], replies: list[str]
) -> None:
    """Judge whether the conversation is replayed.

    An agent may put a warning of its own beside the model's answer, and need not replay it. So only a text
    that the prompt asked for must come back; of other text, some must.
    """
    rule = "session.load-replays"
    user_text = chunk_text(replay, "user_message_chunk")
    agent_text = chunk_text(replay, "agent_message_chunk")
    missing = ["user"] if any(prompt.strip() not in user_text for prompt in prompts) else []
    echoed = any(_REPLAYED_TEXT in reply for reply in replies)
    if not agent_text.strip() or (echoed and _REPLAYED_TEXT not in agent_text):
        missing.append("agent")
    whole = all(reply.strip() in agent_text for reply in replies)
    failure = f"the text of the {' and the '.join(missing)} is not replayed"
    if not missing and not whole and not echoed:
        fixture.add_unjudged(rule, _PARTLY_REPLAYED, answer)
    else:
        fixture.judge(rule, not missing, "the whole conversation is replayed", failure, answer)


@case("session.load-exists", _LOAD_CAPABILITY)
async def load_unknown_session(fixture: AgentFixture) -> None:
    """Loading an unknown session: session/load of `nope`."""
    rule = "session.load-exists"
    agent = await fixture.start_agent()
    row = CallCase(rule, "session/load", {"sessionId": "nope", "cwd": fixture.cwd, "mcpServers": []}, "error")
    answers = await check_calls(agent, [row])
    if answers[0].code == -32601:
        fixture.add_fail(rule, "session/load is advertised but unknown", answers[0])


@case("session.resume-without-history session.resume-without-mcp-servers", _RESUME_CAPABILITY)
async def resume_session(fixture: AgentFixture) -> None:
    """Resuming a session: a turn, another process, session/resume."""
    prompt = fixture.action("talk").prompt_text()
    agent, session, _, answer = await _reopen(fixture, "session/resume", prompt)
    if not answer.ok:
        raise CaseUnavailable(f"its own session cannot be resumed: {answer.summary}")
    if agent.advertises("sessionCapabilities.close"):
        await agent.call("session/close", {"sessionId": session})
    without_servers = await agent.call("session/resume", {"sessionId": session, "cwd": fixture.cwd})
    failure = f"resume without mcpServers gave {without_servers.summary}"
    reason = "mcpServers may be left out"
    fixture.judge("session.resume-without-mcp-servers", without_servers.ok, reason, failure, without_servers)


@case("session.resume-keeps-context", _RESUME_CAPABILITY)
async def resume_keeps_history(fixture: AgentFixture) -> None:
    """History of a resumed session: a fact, another process, a question."""
    recall = fixture.action("recall")
    told = fixture.action("tell").prompt_text(word=_REMEMBERED_WORD)
    agent, session, _, answer = await _reopen(fixture, "session/resume", told)
    if not answer.ok:
        raise CaseUnavailable(f"its own session cannot be resumed: {answer.summary}")
    turn = await agent.run_turn(session, recall.prompt_text(word=_REMEMBERED_WORD))
    if not turn.answer.ok:
        raise CaseUnavailable(f"the question returned {turn.answer.summary}")
    expected = recall.shows or _REMEMBERED_WORD
    failure = f"it does not know the earlier text: {turn.text[:200]!r}"
    reason = "it knows the earlier text"
    fixture.judge("session.resume-keeps-context", expected in turn.text, reason, failure, turn.answer)


_SYSTEM_PROMPT_CAPABILITY: Final = "sessionCapabilities.systemPrompt"
SYSTEM_PROMPT_WORD: Final = "word-of-the-system-prompt"
"""The system prompt tells the agent to write this word."""
_FORK_TEXT: Final = "text-in-the-fork"
_REMEMBERED_WORD: Final = "word-to-remember"


@case("fork.new-session", "sessionCapabilities.fork")
async def fork_session(fixture: AgentFixture) -> None:
    """Forking a session: fork, a prompt in the fork, the source again."""
    rule = "fork.new-session"
    agent, source = await fixture.open_session()
    await fixture.run_action(agent, source, "echo", text="before")
    answer = await agent.call("session/fork", {"sessionId": source, "cwd": fixture.cwd, "mcpServers": []})
    fork_id = at(answer.result, "sessionId")
    is_new = isinstance(fork_id, str) and fork_id != source
    if not fixture.judge(rule, is_new, "a fork has its own id", f"fork gave {answer.summary}", answer):
        return
    turn = await agent.run_turn(fork_id, fixture.action("echo").prompt_text(text=_FORK_TEXT))
    if not turn.answer.ok:
        fixture.add_fail(rule, f"a prompt in the fork gave {turn.answer.summary}", turn)
    elif agent.advertises("loadSession"):
        if agent.advertises("sessionCapabilities.close"):
            await agent.call("session/close", {"sessionId": source})
        load = await agent.call("session/load", {"sessionId": source, "cwd": fixture.cwd, "mcpServers": []})
        replay = [line for line in agent.lines[load.request.number :] if line.session == source]
        copied = _FORK_TEXT in chunk_text(replay, "user_message_chunk")
        failure = "text of the fork appears in the source"
        if load.ok:
            fixture.judge(rule, not copied, "the source is untouched", failure, load)


def _system_prompt(mode: Any = "append", content: Any = None) -> dict[str, Any]:
    blocks = (
        [{"type": "text", "text": f"End every answer with the word {SYSTEM_PROMPT_WORD}."}]
        if content is None
        else content
    )
    return {"systemPrompt": {"mode": mode, "content": blocks}}


@case("system-prompt.invalid-refused", _SYSTEM_PROMPT_CAPABILITY)
async def invalid_system_prompts(fixture: AgentFixture) -> None:
    """Invalid system prompts: unknown modes, images, a bare text."""
    rule = "system-prompt.invalid-refused"
    agent = await fixture.start_agent()
    prompts: list[dict[str, Any]] = [
        _system_prompt("_x"),
        _system_prompt("append", [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]),
        {"systemPrompt": "text"},
    ]
    if not agent.advertises(f"{_SYSTEM_PROMPT_CAPABILITY}.mode.override"):
        prompts.append(_system_prompt("override"))
    lists = agent.advertises("sessionCapabilities.list")
    before = own_session_ids(fixture, (await list_sessions(agent))[0]) if lists else []
    for more in prompts:
        answer = await agent.new_session(fixture.cwd, **more)
        failure = (
            f"the system prompt {str(more['systemPrompt'])[:80]} gave {answer.summary}; expected an error"
        )
        fixture.judge(rule, not answer.ok, "invalid system prompts are refused", failure, answer)
    after = own_session_ids(fixture, (await list_sessions(agent))[0]) if lists else []
    if all(note.outcome == "pass" for note in fixture.notes.for_rule(rule)):
        failure = "a refused system prompt left a session behind"
        fixture.judge(rule, after == before, "and no session is left behind", failure)


@case("system-prompt.applied", _SYSTEM_PROMPT_CAPABILITY)
async def system_prompt_is_applied(fixture: AgentFixture) -> None:
    """A system prompt: a word in every answer, on new, load, resume and fork."""
    rule = "system-prompt.applied"
    action = fixture.action("obey")
    agent = await fixture.start_agent()
    session = await fixture.new_session(agent, **_system_prompt())
    expected = action.shows or SYSTEM_PROMPT_WORD
    turn = await agent.run_turn(session, action.prompt_text())
    fixture.judge(
        rule, expected in turn.text, "applied on session/new", "not applied on session/new", turn.answer
    )
    params: dict[str, Any] = {"sessionId": session, "cwd": fixture.cwd, "mcpServers": [], **_system_prompt()}
    methods = (
        ("session/load", "loadSession"),
        ("session/resume", "sessionCapabilities.resume"),
        ("session/fork", "sessionCapabilities.fork"),
    )
    for method, capability in methods:
        if agent.advertises(capability):
            answer = await agent.call(method, params)
            opened = at(answer.result, "sessionId") or session
            turn = await agent.run_turn(opened, action.prompt_text())
            failure = f"not applied on {method}"
            fixture.judge(rule, expected in turn.text, f"applied on {method}", failure, turn.answer)


@case("system-prompt.override-keeps-permissions", _SYSTEM_PROMPT_CAPABILITY)
async def overriding_system_prompt(fixture: AgentFixture) -> None:
    """An overriding system prompt: the permission action with and without override."""
    rule = "system-prompt.override-keeps-permissions"
    agent = await fixture.start_agent()
    if not agent.advertises(f"{_SYSTEM_PROMPT_CAPABILITY}.mode.override"):
        fixture.add_not_applicable(rule, "it does not advertise override")
        return
    plain_session = await fixture.new_session(agent)
    first = await fixture.run_action(agent, plain_session, "permission", file="plain.txt")
    session = await fixture.new_session(agent, **_system_prompt("override"))
    second = await fixture.run_action(agent, session, "permission", file="other.txt")
    counts = [len(turn.requests("session/request_permission")) for turn in (first, second)]
    if not counts[0]:
        raise CaseUnavailable("the agent sent no permission request")
    failure = f"{counts[0]} permission requests without override, {counts[1]} with it"
    fixture.judge(rule, counts[0] == counts[1], "permissions stay as they are", failure, second.answer)
