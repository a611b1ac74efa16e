"""Cases: permissions, elicitation, dialects of their answers."""

from pathlib import Path
from typing import Any, Final

from accord.check.agent.agent_fixture import NO_PERMISSION_REQUEST, AgentCase, AgentFixture, without
from accord.check.agent.agent_under_test import AgentTurn, AgentUnderTest
from accord.check.agent.client_responder import (
    CANCELLED,
    EFFECTS,
    HOLD,
    Handler,
    Reply,
    allow,
    error,
    filled_in,
    option,
    reject,
    result,
    selected,
)
from accord.check.check_script import fill
from accord.check.checked_connection import WireLine
from accord.check.findings import CaseUnavailable

_NO_EFFECT: Final = "the permitted action had no effect"


def find_effects(agent: AgentUnderTest, since: int, path: Path) -> list[WireLine]:
    """The side effects since a line: requests with effects, or the file itself."""
    effects_found = [
        line for line in agent.lines[since:] if line.sender == "agent" and line.method in EFFECTS
    ]
    if path.exists() and not effects_found:
        effects_found = agent.lines[-1:]
    return effects_found


async def run_with_answer(
    fixture: AgentFixture, name: str, reply: Handler, *, agent: AgentUnderTest
) -> tuple[AgentTurn, list[WireLine], list[WireLine]]:
    """Run the permission action with this answer; returns the turn, its requests and the effects."""
    session = await fixture.new_session(agent)
    agent.responder.overrides["session/request_permission"] = reply
    path = fixture.folder / name
    since = len(agent.lines)
    turn = await fixture.run_action(agent, session, "permission", file=name)
    requests = turn.requests("session/request_permission")
    if not requests:
        raise CaseUnavailable(NO_PERMISSION_REQUEST)
    return turn, requests, find_effects(agent, requests[0].number if requests else since, path)


async def agent_with_permission(fixture: AgentFixture) -> AgentUnderTest:
    """Start an agent and make sure that the permission action has an effect when it is allowed."""
    agent = await fixture.start_agent()
    _, _, effects_found = await run_with_answer(fixture, "permitted.txt", allow, agent=agent)
    if not effects_found:
        raise CaseUnavailable(_NO_EFFECT)
    return agent


async def unanswered_request(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    agent.responder.overrides["session/request_permission"] = _hold
    prompt = agent.prompt(session, fixture.action("permission").filled(file="held.txt"))
    request = await fixture.wait_for_permission_request(agent, prompt)
    await agent.barrier()
    early_effects = find_effects(agent, prompt.number, fixture.folder / "held.txt")
    del agent.responder.overrides["session/request_permission"]
    agent.reply(request, agent.responder.serve(request) or {})
    await agent.finish_turn(prompt)
    if not find_effects(agent, prompt.number, fixture.folder / "held.txt"):
        raise CaseUnavailable(_NO_EFFECT)
    frames = [request.evidence, *(line.evidence for line in early_effects[:2])]
    bad = "an effect happened before the answer"
    fixture.notes.judge(198, not early_effects, "no effect happens before the answer", bad, frames)


def _hold(line: WireLine) -> Reply:
    return HOLD


async def rejected_request(fixture: AgentFixture) -> None:
    turn, requests, effects_found = await run_with_answer(
        fixture, "rejected.txt", reject, agent=await agent_with_permission(fixture)
    )
    frames = [requests[0].evidence, *(line.evidence for line in effects_found[:2]), turn.answer.line.evidence]
    bad = (
        "a refused tool had an effect"
        if effects_found
        else f"a refusal ended the turn with {turn.answer.summary}"
    )
    fixture.notes.judge(
        199, not effects_found and turn.answer.ok, "a refused tool has no effect", bad, frames
    )


_NO_CONSENT: Final[tuple[tuple[str, Reply], ...]] = (
    ("cancelled", CANCELLED),
    ("an error", error(-32603, "Internal error")),
    ("an unknown outcome", result({"outcome": {"outcome": "zzz"}})),
    ("a bare `allowed`", result({"outcome": "allowed"})),
)


async def answers_without_consent(fixture: AgentFixture) -> None:
    agent = await agent_with_permission(fixture)
    for number, (name, reply) in enumerate(_NO_CONSENT):
        _, requests, effects_found = await run_with_answer(
            fixture, f"no-{number}.txt", _reply_with(reply), agent=agent
        )
        bad = f"{name} counts as consent"
        frames = [requests[0].evidence, *(line.evidence for line in effects_found[:2])]
        fixture.notes.judge(200, not effects_found, f"{name} is not consent", bad, frames)


def _reply_with(reply: Reply) -> Handler:
    return lambda line: reply


async def remembered_answers(fixture: AgentFixture) -> None:
    agent = await fixture.start_agent()
    for kind, again in (("allow_once", True), ("allow_always", False)):
        session = await fixture.new_session(agent)
        chosen: list[str] = []

        def choose(line: WireLine, kind: str = kind, chosen: list[str] = chosen) -> Reply:
            id = option(line, kind)
            if id is None:
                return reject(line)
            chosen.append(id)
            return selected(id)

        agent.responder.overrides["session/request_permission"] = choose
        await fixture.run_action(agent, session, "permission", file=f"{kind}.txt")
        (fixture.folder / f"{kind}.txt").unlink(missing_ok=True)
        turn = await fixture.run_action(agent, session, "permission", file=f"{kind}.txt")
        requests = turn.requests("session/request_permission")
        if not chosen:
            fixture.notes.add_not_shown(201, f"no option of the kind {kind} was offered")
            continue
        bad = f"{kind} {'is remembered' if again else 'is forgotten'}"
        good = f"{kind} {'is not' if again else 'is'} remembered"
        fixture.notes.judge(201, bool(requests) == again, good, bad, [line.evidence for line in requests[:1]])


PERMISSION_CASES: Final = (
    AgentCase(
        "an unanswered permission request",
        "the answer to a permission is held back",
        (193, 194, 195, 198),
        unanswered_request,
    ),
    AgentCase("a refusal", "a reject option is chosen", (199,), rejected_request),
    AgentCase(
        "answers that are not consent",
        "cancelled, an error, an unknown outcome, a bare string",
        (200,),
        answers_without_consent,
    ),
    AgentCase("remembered answers", "allow_always and allow_once, twice each", (201,), remembered_answers),
)


_FORM_ANSWER: Final = "turquoise"


async def _run_elicitation(fixture: AgentFixture, reply: Handler | None, action: str = "ask") -> AgentTurn:
    """Run the ask action in a new session, with this answer to the form."""
    agent = fixture.agents[-1] if fixture.agents else await fixture.start_agent()
    session = await fixture.new_session(agent)
    agent.responder.overrides.pop("elicitation/create", None)
    if reply is not None:
        agent.responder.overrides["elicitation/create"] = reply
    turn = await fixture.run_action(agent, session, action)
    if not turn.requests("elicitation/create"):
        raise CaseUnavailable("the agent sent no elicitation")
    return turn


async def declined_forms(fixture: AgentFixture) -> None:
    replies: tuple[tuple[str, Reply], ...] = (
        ("decline", result({"action": "decline"})),
        ("cancel", result({"action": "cancel"})),
        ("an error", error(-32603, "Internal error")),
    )
    for name, reply in replies:
        turn = await _run_elicitation(fixture, _reply_with(reply))
        bad = f"after {name} the turn gave {turn.answer.summary}"
        fixture.notes.judge(274, turn.answer.ok, "the turn ends normally", bad, turn.answer.evidence)


async def forms_without_content(fixture: AgentFixture) -> None:
    omitted = await _run_elicitation(fixture, lambda line: result({"action": "accept"}))
    null = await _run_elicitation(fixture, lambda line: result({"action": "accept", "content": None}))
    alike = omitted.answer.ok == null.answer.ok and omitted.stop == null.stop
    bad = f"without content: {omitted.answer.summary}; with null: {null.answer.summary}"
    frames = (omitted.answer.line.evidence, null.answer.line.evidence)
    fixture.notes.judge(275, alike, "missing and null content have the same effect", bad, frames)


async def unknown_form_actions(fixture: AgentFixture) -> None:
    def unknown(line: WireLine) -> Reply:
        return result({"action": "_x", "content": filled_in(line, _FORM_ANSWER)})

    action = fixture.action("ask")
    if not action.shows:
        raise CaseUnavailable("the script does not say how an answer is visible")
    shows = fill(action.shows, {"answer": _FORM_ANSWER})
    accepted = await _run_elicitation(fixture, None)
    if shows not in accepted.all_text:
        raise CaseUnavailable("an accepted answer was not visible")
    turn = await _run_elicitation(fixture, unknown)
    bad = "an unknown action counts as acceptance"
    fixture.notes.judge(
        276, shows not in turn.all_text, "an unknown action is not acceptance", bad, turn.answer.evidence
    )


async def missing_elicitation_modes(fixture: AgentFixture) -> None:
    for missing in ("elicitation.form", "elicitation.url", "elicitation"):
        agent, session = await fixture.open_session(without(missing))
        for action in ("ask", "ask_url"):
            if fixture.has_action(action):
                await fixture.run_action(agent, session, action)


async def web_pages(fixture: AgentFixture) -> None:
    await _run_elicitation(fixture, None, "ask_url")


ELICITATION_CASES: Final = (
    AgentCase("forms", "decline, cancel, an error", (262, 263, 264, 265, 274), declined_forms),
    AgentCase("forms without content", "content left out, and null", (275,), forms_without_content),
    AgentCase("forms and unknown actions", "`_x` with an answer in it", (276,), unknown_form_actions),
    AgentCase(
        "clients without forms or pages",
        "the same actions, without one mode",
        (260,),
        missing_elicitation_modes,
    ),
    AgentCase("pages", "the user is sent to a web page", (267, 268, 269), web_pages),
)


_DIALECT_ANSWERS: Final[tuple[Any, ...]] = (
    "allowed",
    "approved",
    True,
    {"outcome": "approved"},
    {"outcome": {"outcome": "allowed"}},
)


async def answers_in_dialects(fixture: AgentFixture) -> None:
    agent = await agent_with_permission(fixture)
    replies: list[tuple[str, Reply]] = [(repr(value), result(value)) for value in _DIALECT_ANSWERS]
    replies.append(("an option that was not offered", selected("not-offered")))
    for number, (name, reply) in enumerate(replies):
        _, requests, effects_found = await run_with_answer(
            fixture, f"dialect-{number}.txt", _reply_with(reply), agent=agent
        )
        frames = [requests[0].evidence, *(line.evidence for line in effects_found[:2])]
        fixture.notes.judge(
            388, not effects_found, "vague answers are not consent", f"{name} counts as consent", frames
        )


async def strict_mode(fixture: AgentFixture) -> None:
    if not fixture.script.strict:
        fixture.notes.add_not_applicable(390, "it has no strict mode that the script knows of")
        return
    strict = await fixture.start_strict_agent()
    assert strict is not None
    await _check_dialects(fixture, strict, strict=True)
    await _check_dialects(fixture, await fixture.start_agent(), strict=False)

    def bare(line: WireLine) -> Reply:
        return result({"outcome": "allow_once"})

    _, requests, effects_found = await run_with_answer(fixture, "strictly.txt", bare, agent=strict)
    bad = "in strict mode a bare `allow_once` counts as consent"
    fixture.notes.judge(
        390, not effects_found, "strict: only the official form is consent", bad, [requests[0].evidence]
    )


async def _check_dialects(fixture: AgentFixture, agent: AgentUnderTest, *, strict: bool) -> None:
    session = await fixture.new_session(agent)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("session/prompt", {"sessionId": session, "prompt": "hello"}),
        ("session/new", {"cwd": fixture.cwd, "mcpServers": {}}),
    ]
    if agent.advertises("sessionCapabilities.list"):
        calls.append(("sessions/list", {"cwd": fixture.cwd}))
    for method, params in calls:
        answer = await agent.wait_for_answer(
            agent.send_request(method, params), timeout=fixture.timeouts.turn
        )
        mode = "strict" if strict else "tolerant"
        bad = f"{mode}: {method} in a dialect gave {answer.summary}"
        fixture.notes.judge(390, answer.ok != strict, "dialects only in tolerant mode", bad, answer.evidence)


ANSWER_CASES: Final = (
    AgentCase(
        "vague answers",
        "permission answers in dialects that name no offered option",
        (388,),
        answers_in_dialects,
    ),
    AgentCase("strict mode", "dialects in strict and in tolerant mode", (390,), strict_mode),
)


CASES: Final = (
    *PERMISSION_CASES,
    *ELICITATION_CASES,
    *ANSWER_CASES,
)
