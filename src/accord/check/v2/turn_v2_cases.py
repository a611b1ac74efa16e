"""Cases of version 2: prompts, states, cancellation and permissions."""

from collections.abc import Callable
from typing import Any, Final

from accord.check.agent.agent_fixture import TURN_ENDED, AgentCases, AgentFixture
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.agent.client_responder import CANCELLED_REPLY, reject
from accord.check.checked_connection import Handler, Reply, leave_unanswered, result_reply
from accord.check.findings import CaseUnavailable, RuleId
from accord.check.v2.agent_v2 import AgentV2, TurnV2, is_state, is_user_message
from accord.trace.trace_steps import at
from accord.trace.wire_line import WireLine
from accord.wire.envelope import Message

case: Final = AgentCases()

_PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_BLOCKS: Final[dict[str, dict[str, Any]]] = {
    "image": {"type": "image", "mimeType": "image/png", "data": _PIXEL},
    "audio": {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
    "embeddedContext": {"type": "resource", "resource": {"uri": "file:///x", "text": "x"}},
}
"""Blocks that need a capability, by its name."""


@case(
    "v2-prompt.message-id v2-prompt.user-message v2-prompt.distinct-ids v2-prompt.running v2-prompt.idle "
    "v2-prompt.stop-reason v2-update.message-id v2-update.known-values v2-update.session schema"
)
async def two_turns(fixture: AgentFixture) -> None:
    """Two turns: plain text twice in one session."""
    agent, session = await fixture.open_session()
    for _ in range(2):
        turn = await fixture.run_action(agent, session, "talk")
        failure = f"session/prompt gave {turn.answer.summary}"
        fixture.judge("v2-prompt.message-id", turn.answer.ok, "it has an id", failure, turn.answer)


@case(
    "v2-update.tool-call-id v2-update.tool-call-title v2-update.plan-id v2-update.terminal "
    "v2-update.background v2-framing.agent-known-methods v2-framing.agent-custom-members "
    "v2-permission.forms-need-capability v2-update.known-values"
)
async def tools(fixture: AgentFixture) -> None:
    """Tools: a plan, reading, writing, running a command and asking the user."""
    agent, session = await fixture.open_session()
    for action, values in (
        ("plan", {}),
        ("read", {"file": "notes.txt"}),
        ("write", {"file": "new.txt", "text": "x"}),
        ("run", {}),
        ("ask", {}),
    ):
        if fixture.has_action(action):
            await fixture.run_action(agent, session, action, **values)


@case("v2-prompt.unsupported-block v2-prompt.link-block v2-framing.meta-accepted")
async def blocks(fixture: AgentFixture) -> None:
    """Blocks: text with a link, and blocks of types that it does not advertise."""
    agent, session = await fixture.open_session()
    await fixture.require_plain_turn(agent, session)
    text = {"type": "text", "text": fixture.action("talk").prompt_text(), "_meta": {"example.com/x": 1}}
    link = {"type": "resource_link", "name": "notes.txt", "uri": (fixture.folder / "notes.txt").as_uri()}
    turn = await agent.run_turn(session, [text, link])
    failure = f"text with a link gave {turn.answer.summary}"
    fixture.judge("v2-prompt.link-block", turn.answer.ok, "it is accepted", failure, turn.answer)
    rule: RuleId = "v2-prompt.unsupported-block"
    missing = [name for name in _BLOCKS if not agent.advertises(f"session.prompt.{name}")]
    if not missing:
        fixture.add_not_applicable(rule, "it advertises every block")
    for name in missing:
        request = agent.prompt(session, [text, _BLOCKS[name]])
        answer = await agent.wait_for_answer(request, rule=rule)
        await agent.ping()
        shown = [line for line in agent.lines[request.number :] if is_user_message(line)]
        failure = f"an unadvertised {name} gave {answer.summary} and {len(shown)} user messages"
        passed = answer.code == -32602 and not shown
        fixture.judge(rule, passed, "it is refused", failure, answer, *shown[:1])


@case(
    "v2-cancel.stop-reason v2-cancel.no-state-after v2-cancel.no-error "
    "v2-framing.agent-silent-on-notification"
)
async def cancel(fixture: AgentFixture) -> None:
    """Cancelling: session/cancel during work."""
    agent, session = await fixture.open_session()
    request = await fixture.start_busy_turn(agent, session)
    stop = agent.cancel(session)
    turn = await agent.finish_turn(request)
    failure = f"after the cancel the prompt gave {turn.answer.summary}"
    fixture.judge("v2-cancel.no-error", turn.answer.ok, "the prompt succeeds", failure, turn.answer)
    idle = turn.idle if isinstance(turn, TurnV2) else None
    if idle is None or idle.number < stop.number:
        raise CaseUnavailable(TURN_ENDED)
    failure = f"a cancelled turn ends with {turn.stop_reason!r}"
    passed = turn.stop_reason == "cancelled"
    fixture.judge("v2-cancel.stop-reason", passed, "it ends with `cancelled`", failure, stop, idle)
    await agent.wait_for_line(_is_any_state, since=idle.number, timeout=1.0)
    later = [line for line in agent.lines[idle.number :] if _is_any_state(line)]
    failure = "a state update after the idle that ended the cancelled turn"
    fixture.judge("v2-cancel.no-state-after", not later, "no state follows", failure, idle, *later[:1])


def _is_any_state(line: WireLine) -> bool:
    return line.sender == "agent" and line.kind == "state_update"


@case("v2-prompt.while-busy v2-cancel.held-prompt")
async def prompts_while_busy(fixture: AgentFixture) -> None:
    """Prompts during work: two more prompts; one of them is withdrawn, then the work is cancelled."""
    agent, session = await fixture.open_session()
    first = await fixture.start_busy_turn(agent, session)
    talk = fixture.action("talk").prompt_text()
    second, third = agent.prompt(session, talk), agent.prompt(session, talk)
    await agent.ping()
    await agent.wait_for_line(_answers(third), since=third.number, timeout=1.0)
    held = not any(_answers(third)(line) for line in agent.lines)
    rule: RuleId = "v2-cancel.held-prompt"
    if held:
        agent.notify("$/cancel_request", {"requestId": third.id})
        answer = await agent.wait_for_answer(third, rule=rule)
        failure = f"a withdrawn prompt gave {answer.summary}; expected -32800"
        fixture.judge(rule, answer.code == -32800, "it gives -32800", failure, answer)
    else:
        fixture.add_not_applicable(rule, "it does not hold prompts")
    agent.cancel(session)
    answers = [await agent.wait_for_answer(one, rule="v2-prompt.while-busy") for one in (first, second)]
    if isinstance(agent, AgentV2):
        await agent.wait_for_idle(third, timeout=fixture.timeouts.soon)
    # A cancel also ends prompts that were not inserted yet; others succeed.
    codes = [answer.code for answer in answers[1:] if not answer.ok]
    failure = f"a prompt during work gave {', '.join(answer.summary for answer in answers[1:])}"
    passed = all(code == -32800 for code in codes)
    fixture.judge("v2-prompt.while-busy", passed, "it was inserted or held", failure, *answers)
    _check_shown(fixture, agent, [second, third])


def _answers(request: WireLine) -> Callable[[WireLine], bool]:
    def matches(line: WireLine) -> bool:
        return line.sender == "agent" and line.is_answer and line.id == request.id

    return matches


def _check_shown(fixture: AgentFixture, agent: AgentUnderTest, prompts: list[WireLine]) -> None:
    """Only prompts that succeeded have user messages, in their order."""
    ids: list[Any] = []
    for prompt in prompts:
        answer = next((line for line in agent.lines if _answers(prompt)(line)), None)
        ids.append(at(None if answer is None else answer.message, "result", "messageId"))
    since = prompts[0].number
    shown = [line.update.get("messageId") for line in agent.lines[since:] if is_user_message(line)]
    order = [id for id in dict.fromkeys(shown) if id in ids]
    passed = order == [id for id in ids if id in order]
    failure = f"the user messages {order} are not in the order of the prompts {ids}"
    fixture.judge("v2-prompt.while-busy", passed, "the order stays", failure)


@case("v2-permission.members v2-permission.rejected v2-prompt.requires-action")
async def rejected_permission(fixture: AgentFixture) -> None:
    """Rejecting: a tool that needs permission is rejected."""
    agent, session = await fixture.open_session()
    agent.responder.overrides["session/request_permission"] = reject
    turn = await fixture.run_action(agent, session, "permission", file="asked.txt")
    asked = [line for line in agent.lines if line.method == "session/request_permission"]
    if not asked:
        raise CaseUnavailable("the agent sent no permission request")
    made = (fixture.folder / "asked.txt").exists()
    failure = "the file was made although it was rejected"
    fixture.judge(
        "v2-permission.rejected", not made and turn.answer.ok, "nothing happens", failure, *asked[:1]
    )
    states = [line for line in agent.lines if _is_any_state(line)]
    waiting = next((line for line in states if is_state(line, "requires_action")), None)
    resumed = waiting is not None and any(
        is_state(line, "running", "idle") and line.number > waiting.number for line in states
    )
    failure = "no `requires_action` while it waited for the user"
    fixture.judge("v2-prompt.requires-action", resumed, "the state shows it", failure, *asked[:1])


_NO_APPROVALS: Final = (
    {"outcome": "selected", "optionId": "an-option-that-was-not-offered"},
    {"outcome": "_approved", "optionId": "allow"},
)


def always(reply: Message) -> Handler:
    """A handler that always gives this answer."""

    def answer(line: WireLine) -> Reply:
        del line
        return reply

    return answer


@case("v2-permission.not-offered")
async def answers_without_consent(fixture: AgentFixture) -> None:
    """Answers without consent: an option that was not offered, and an unknown outcome."""
    for number, outcome in enumerate(_NO_APPROVALS):
        agent, session = await fixture.open_session()
        reply = result_reply({"outcome": outcome})
        agent.responder.overrides["session/request_permission"] = always(reply)
        file = f"unasked-{number}.txt"
        await fixture.run_action(agent, session, "permission", file=file)
        if not any(line.method == "session/request_permission" for line in agent.lines):
            raise CaseUnavailable("the agent sent no permission request")
        made = (fixture.folder / file).exists()
        failure = f"{outcome} counted as an approval"
        fixture.judge("v2-permission.not-offered", not made, "it is no approval", failure)


@case("v2-cancel.permission-withdrawn")
async def cancel_during_permission(fixture: AgentFixture) -> None:
    """Cancelling a question: session/cancel while a permission request is open."""
    rule: RuleId = "v2-cancel.permission-withdrawn"
    agent, session = await fixture.open_session()
    agent.responder.overrides["session/request_permission"] = leave_unanswered
    request = agent.prompt(session, fixture.action("permission").prompt_text(file="asked.txt"))
    asked = await fixture.wait_for_permission_request(agent, request)
    agent.cancel(session)
    withdrawn = await agent.wait_for_line(
        lambda line: line.method == "$/cancel_request" and at(line.params, "requestId") == asked.id,
        since=asked.number,
        timeout=fixture.timeouts.soon,
    )
    agent.reply(asked, CANCELLED_REPLY)
    await agent.finish_turn(request)
    failure = "the permission request was not withdrawn with $/cancel_request"
    fixture.judge(rule, withdrawn is not None, "it is withdrawn", failure, asked)
