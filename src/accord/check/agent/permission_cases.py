"""Cases: permissions, elicitation, dialects of their answers."""

from typing import Any, Final

from accord.check.agent.agent_fixture import (
    NO_EFFECT,
    AgentCases,
    AgentFixture,
    capabilities_without,
    find_effects,
)
from accord.check.agent.agent_under_test import AgentTurn, AgentUnderTest
from accord.check.agent.client_responder import (
    CANCELLED_REPLY,
    FORM_ANSWER,
    find_option,
    form_content,
    reject,
    select_option,
)
from accord.check.check_script import fill_placeholders
from accord.check.checked_connection import Handler, Reply, error_reply, leave_unanswered, result_reply
from accord.check.findings import CaseUnavailable
from accord.trace.wire_line import WireLine

case: Final = AgentCases()


@case(
    "permission.request-members permission.option-members permission.option-ids "
    "permission.nothing-before-answer"
)
async def unanswered_request(fixture: AgentFixture) -> None:
    """An unanswered permission request: a permission request is answered late."""
    agent, session = await fixture.open_session()
    agent.responder.overrides["session/request_permission"] = leave_unanswered
    prompt = agent.prompt(session, fixture.action("permission").prompt_text(file="unanswered.txt"))
    request = await fixture.wait_for_permission_request(agent, prompt)
    await agent.ping()
    early_effects = find_effects(agent, prompt.number, fixture.folder / "unanswered.txt")
    del agent.responder.overrides["session/request_permission"]
    agent.reply(request, agent.responder.serve(request) or {})
    await agent.finish_turn(prompt)
    if not find_effects(agent, prompt.number, fixture.folder / "unanswered.txt"):
        raise CaseUnavailable(NO_EFFECT)
    frames = [request, *early_effects[:2]]
    failure = "an effect happened before the answer"
    reason = "no effect happens before the answer"
    fixture.judge("permission.nothing-before-answer", not early_effects, reason, failure, *frames)


@case("permission.reject-prevents")
async def rejected_request(fixture: AgentFixture) -> None:
    """A rejected permission request: a reject option is selected."""
    turn, requests, effects = await fixture.run_permission_action(
        "rejected.txt", reject, agent=await fixture.start_agent_with_effect()
    )
    frames = [requests[0], *effects[:2], turn.answer.line]
    failure = (
        "a refused tool had an effect" if effects else f"a refusal ended the turn with {turn.answer.summary}"
    )
    reason = "a refused tool has no effect"
    fixture.judge("permission.reject-prevents", not effects and turn.answer.ok, reason, failure, *frames)


_ANSWERS_WITHOUT_CONSENT: Final[tuple[tuple[str, Reply], ...]] = (
    ("cancelled", CANCELLED_REPLY),
    ("an error", error_reply(-32603, "Internal error")),
    ("an unknown outcome", result_reply({"outcome": {"outcome": "zzz"}})),
    ("a bare `allowed`", result_reply({"outcome": "allowed"})),
)


@case("permission.only-consent-allows")
async def answers_without_consent(fixture: AgentFixture) -> None:
    """Answers that are not consent: cancelled, an error, an unknown outcome, a bare string."""
    agent = await fixture.start_agent_with_effect()
    for number, (name, reply) in enumerate(_ANSWERS_WITHOUT_CONSENT):
        _, requests, effects = await fixture.run_permission_action(
            f"no-{number}.txt", _always_reply(reply), agent=agent
        )
        failure = f"{name} counts as consent"
        frames = [requests[0], *effects[:2]]
        fixture.judge(
            "permission.only-consent-allows", not effects, f"{name} is not consent", failure, *frames
        )


def _always_reply(reply: Reply) -> Handler:
    return lambda line: reply


@case("permission.remembered")
async def remembered_answers(fixture: AgentFixture) -> None:
    """Remembered answers: the permission action twice, with allow_once and with allow_always."""
    rule = "permission.remembered"
    agent = await fixture.start_agent()
    for kind, asks_again in (("allow_once", True), ("allow_always", False)):
        session = await fixture.new_session(agent)
        chosen: list[str] = []

        def choose(line: WireLine, kind: str = kind, chosen: list[str] = chosen) -> Reply:
            id = find_option(line, kind)
            if id is None:
                return reject(line)
            chosen.append(id)
            return select_option(id)

        agent.responder.overrides["session/request_permission"] = choose
        await fixture.run_action(agent, session, "permission", file=f"{kind}.txt")
        (fixture.folder / f"{kind}.txt").unlink(missing_ok=True)
        turn = await fixture.run_action(agent, session, "permission", file=f"{kind}.txt")
        requests = turn.requests("session/request_permission")
        if not chosen:
            fixture.add_not_shown(rule, f"no option of the kind {kind} was offered")
            continue
        failure = f"{kind} {'is remembered' if asks_again else 'is forgotten'}"
        pass_reason = f"{kind} {'is not' if asks_again else 'is'} remembered"
        fixture.judge(rule, bool(requests) == asks_again, pass_reason, failure, *requests[:1])


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


@case(
    "elicitation.members elicitation.one-scope elicitation.flat-schema elicitation.no-secrets "
    "elicitation.declined"
)
async def declined_forms(fixture: AgentFixture) -> None:
    """Declined forms: decline, cancel, an error."""
    replies: tuple[tuple[str, Reply], ...] = (
        ("decline", result_reply({"action": "decline"})),
        ("cancel", result_reply({"action": "cancel"})),
        ("an error", error_reply(-32603, "Internal error")),
    )
    for name, reply in replies:
        turn = await _run_elicitation(fixture, _always_reply(reply))
        failure = f"after {name} the turn gave {turn.answer.summary}"
        fixture.judge("elicitation.declined", turn.answer.ok, "the turn ends normally", failure, turn)


@case("elicitation.null-content")
async def forms_without_content(fixture: AgentFixture) -> None:
    """Forms without content: content left out, and null."""
    omitted = await _run_elicitation(fixture, lambda line: result_reply({"action": "accept"}))
    null = await _run_elicitation(fixture, lambda line: result_reply({"action": "accept", "content": None}))
    same_effect = omitted.answer.ok == null.answer.ok and omitted.stop_reason == null.stop_reason
    failure = f"without content: {omitted.answer.summary}; with null: {null.answer.summary}"
    frames = [omitted.answer.line, null.answer.line]
    reason = "missing and null content have the same effect"
    fixture.judge("elicitation.null-content", same_effect, reason, failure, *frames)


@case("elicitation.unknown-action")
async def unknown_form_actions(fixture: AgentFixture) -> None:
    """Unknown form actions: the action `_x` with content."""

    def unknown_action(line: WireLine) -> Reply:
        return result_reply({"action": "_x", "content": form_content(line, FORM_ANSWER)})

    action = fixture.action("ask")
    if not action.shows:
        raise CaseUnavailable("the script does not say how an answer is visible")
    expected_text = fill_placeholders(action.shows, {"answer": FORM_ANSWER})
    accepted = await _run_elicitation(fixture, None)
    if expected_text not in accepted.all_text:
        raise CaseUnavailable("an accepted answer was not visible")
    turn = await _run_elicitation(fixture, unknown_action)
    failure = "an unknown action counts as acceptance"
    reason = "an unknown action is not acceptance"
    passed = expected_text not in turn.all_text
    fixture.judge("elicitation.unknown-action", passed, reason, failure, turn.answer)


@case("elicitation.mode-needs-capability")
async def missing_elicitation_modes(fixture: AgentFixture) -> None:
    """Clients without elicitation modes: the ask actions with a client that lacks a mode."""
    for missing in ("elicitation.form", "elicitation.url", "elicitation"):
        agent, session = await fixture.open_session(capabilities_without(missing))
        for action in ("ask", "ask_url"):
            if fixture.has_action(action):
                await fixture.run_action(agent, session, action)


@case("elicitation.unique-id elicitation.url elicitation.own-completions")
async def web_pages(fixture: AgentFixture) -> None:
    """Web pages: the ask_url action."""
    await _run_elicitation(fixture, None, "ask_url")


_DIALECT_ANSWERS: Final[tuple[Any, ...]] = (
    "allowed",
    "approved",
    True,
    {"outcome": "approved"},
    {"outcome": {"outcome": "allowed"}},
)


@case("accord.dialect-is-not-consent")
async def answers_in_dialects(fixture: AgentFixture) -> None:
    """Answers in dialects: permission answers in dialects that name no offered option."""
    agent = await fixture.start_agent_with_effect()
    replies: list[tuple[str, Reply]] = [(repr(value), result_reply(value)) for value in _DIALECT_ANSWERS]
    replies.append(("an option that was not offered", select_option("not-offered")))
    for number, (name, reply) in enumerate(replies):
        _, requests, effects = await fixture.run_permission_action(
            f"dialect-{number}.txt", _always_reply(reply), agent=agent
        )
        frames = [requests[0], *effects[:2]]
        failure = f"{name} counts as consent"
        reason = "answers in dialects are not consent"
        fixture.judge("accord.dialect-is-not-consent", not effects, reason, failure, *frames)


@case("accord.agent-strict-mode")
async def strict_mode(fixture: AgentFixture) -> None:
    """Strict mode: dialects in strict and in tolerant mode."""
    rule = "accord.agent-strict-mode"
    if not fixture.script.strict:
        fixture.add_not_applicable(rule, "it has no strict mode that the script knows of")
        return
    strict = await fixture.start_strict_agent()
    assert strict is not None
    await _check_dialects(fixture, strict, strict=True)
    await _check_dialects(fixture, await fixture.start_agent(), strict=False)

    def bare_answer(line: WireLine) -> Reply:
        return result_reply({"outcome": "allow_once"})

    _, requests, effects = await fixture.run_permission_action("strict.txt", bare_answer, agent=strict)
    failure = "in strict mode a bare `allow_once` counts as consent"
    fixture.judge(rule, not effects, "strict: only the official form is consent", failure, requests[0])


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
        failure = f"{mode}: {method} in a dialect gave {answer.summary}"
        fixture.judge(
            "accord.agent-strict-mode", answer.ok != strict, "dialects only in tolerant mode", failure, answer
        )
