"""Cases: prompts, cancellation, tool calls, files and terminals."""

from typing import Any, Final

from accord.check.agent.agent_fixture import (
    NO_STRICT_MODE,
    NOTES_WORD,
    TURN_ENDED,
    AgentCases,
    AgentFixture,
    capabilities_without,
    has_ended,
)
from accord.check.agent.agent_under_test import AgentTurn, AgentUnderTest
from accord.check.agent.client_responder import CANCELLED_REPLY
from accord.check.checked_connection import Reply, error_reply, leave_unanswered, result_reply
from accord.check.findings import CaseUnavailable, RuleId
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine

case: Final = AgentCases()


NON_ASCII_TEXT: Final = "日本語 🎉 naïve"


@case(
    "extension.agent-no-custom-members prompt.text-block prompt.resource-link-block prompt.stop-reason "
    "prompt.answered prompt.updates-before-response prompt.update-members prompt.chunk-content "
    "prompt.message-id-constant usage.prompt-result"
)
async def plain_turn(fixture: AgentFixture) -> None:
    """A plain turn: a prompt of text, and one with a resource link."""
    agent, session = await fixture.open_session()
    turn = await fixture.run_action(agent, session, "talk")
    failure = f"a prompt of text gave {turn.answer.summary}"
    fixture.judge("prompt.text-block", turn.answer.ok, "text is accepted", failure, turn)
    fixture.add_pass("prompt.answered", "every prompt is answered", turn)
    resource_link = {
        "type": "resource_link",
        "uri": (fixture.folder / "notes.txt").as_uri(),
        "name": "notes.txt",
    }
    request = agent.prompt(
        session, [{"type": "text", "text": fixture.action("talk").prompt_text()}, resource_link]
    )
    link_turn = await agent.finish_turn(request)
    failure = f"a prompt with a resource_link gave {link_turn.answer.summary}"
    fixture.judge(
        "prompt.resource-link-block", link_turn.answer.ok, "links are accepted", failure, link_turn.answer
    )
    await agent.ping()


@case("framing.agent-one-line framing.agent-utf8 accord.agent-lone-surrogate")
async def special_texts(fixture: AgentFixture) -> None:
    """Special texts: several lines, emoji and CJK, half of a surrogate pair."""
    rule = "accord.agent-lone-surrogate"
    agent, session = await fixture.open_session()
    if fixture.has_action("lines"):
        await fixture.run_action(agent, session, "lines")
    if fixture.has_action("echo"):
        turn = await fixture.run_action(agent, session, "echo", text=NON_ASCII_TEXT)
        visible_text = turn.all_text
        wrong_texts = [
            wrong
            for wrong in (
                NON_ASCII_TEXT.encode().decode("latin-1"),
                NON_ASCII_TEXT.encode("ascii", "replace").decode(),
            )
            if wrong in visible_text
        ]
        if NON_ASCII_TEXT in visible_text:
            fixture.add_pass(
                "framing.agent-utf8", "emoji and CJK are returned unchanged", turn.answer.request
            )
        elif wrong_texts:
            fixture.add_fail(
                "framing.agent-utf8", f"{NON_ASCII_TEXT} was returned as {wrong_texts[0]!r}", *turn.lines[-2:]
            )
    if fixture.has_action("talk"):
        await fixture.require_plain_turn(agent, session)
        text = fixture.action("talk").prompt_text() + " \\ud83d"
        params = f'{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}'
        request = agent.send(f'{{"jsonrpc":"2.0","id":"half","method":"session/prompt","params":{params}}}')
        turn = await agent.finish_turn(request, rule=rule)
        failure = f"half of a surrogate pair gave {turn.answer.summary}"
        fixture.judge(rule, turn.answer.ok, "half of a surrogate pair is accepted", failure, turn.answer)


@case("prompt.malformed-refused")
async def malformed_prompts(fixture: AgentFixture) -> None:
    """Malformed prompts: a text block without text; a bare text in strict mode."""
    agent, session = await fixture.open_session()
    await _check_refusal(fixture, agent, session, [{"type": "text"}])
    strict = await fixture.start_strict_agent()
    if strict is None:
        fixture.add_skipped_part("prompt.malformed-refused", NO_STRICT_MODE)
        return
    await _check_refusal(fixture, strict, await fixture.new_session(strict), "hi")


async def _check_refusal(fixture: AgentFixture, agent: Any, session: str, prompt: Any) -> None:
    answer = await agent.call("session/prompt", {"sessionId": session, "prompt": prompt})
    failure = f"the prompt {prompt!r} gave {answer.summary}; expected -32602"
    fixture.judge(
        "prompt.malformed-refused", answer.code == -32602, "malformed prompts are refused", failure, answer
    )


@case("prompt.requests-during-turn accord.prompt-during-turn")
async def requests_during_turn(fixture: AgentFixture) -> None:
    """Requests during a turn: modes, options and a second prompt."""
    # During a turn, modes and options can be set, and a second prompt is refused or held.
    rule = "prompt.requests-during-turn"
    agent = await fixture.start_agent()
    new_answer = await agent.new_session(fixture.cwd)
    session = at(new_answer.result, "sessionId") if new_answer.ok else await fixture.new_session(agent)
    request = await fixture.start_busy_turn(agent, session)
    calls: list[tuple[str, dict[str, Any]]] = []
    mode = at(new_answer.result, "modes", "currentModeId")
    if isinstance(mode, str):
        calls.append(("session/set_mode", {"modeId": mode}))
    option = next(
        (one for one in listed(new_answer.result, "configOptions") if at(one, "type") == "select"), None
    )
    if option is not None:
        params = {"configId": at(option, "id"), "value": at(option, "currentValue")}
        calls.append(("session/set_config_option", params))
    for method, params in calls:
        sent = agent.send_request(method, {"sessionId": session, **params})
        answer = await agent.wait_for_answer(sent, rule=rule, timeout=fixture.timeouts.soon)
        if has_ended(agent, request):
            raise CaseUnavailable(TURN_ENDED)
        failure = f"{method} in a turn gave {answer.summary}"
        fixture.judge(rule, answer.ok, f"{method} works in a turn", failure, answer)
    if not calls:
        fixture.add_not_applicable(rule, "it has neither modes nor options")
    await _check_second_prompt(fixture, agent, session, request)


async def _check_second_prompt(
    fixture: AgentFixture, agent: AgentUnderTest, session: str, request: WireLine
) -> None:
    """Send a second prompt, which is refused or held, then cancel both."""
    rule = "accord.prompt-during-turn"
    second = agent.prompt(session, "hi")
    second_answer = await agent.wait_for_line(
        lambda line: line.sender == "agent" and line.is_answer and line.id == second.id,
        since=second.number,
        timeout=fixture.timeouts.soon / 2,
    )
    first_answer = await agent.wait_for_line(
        lambda line: line.is_answer and line.id == request.id, since=request.number, timeout=0
    )
    agent.cancel(session)
    # A client must not send a second prompt, so its consequences are judged by the rule about it alone.
    turn = await agent.finish_turn(request, rule=rule, timeout=fixture.timeouts.soon)
    if turn.answer.ok and turn.stop_reason != "cancelled":
        raise CaseUnavailable(f"{TURN_ENDED}, so the second prompt was not judged")
    if second_answer is None:
        held = await agent.finish_turn(second, rule=rule, timeout=fixture.timeouts.soon)
        passed = held.stop_reason == "cancelled" and turn.answer.ok
        failure = f"a cancel during a turn ended a held prompt with {held.answer.summary}"
        fixture.judge(rule, passed, "a second prompt is held until the cancel", failure, second, held.answer)
        return
    code = at(second_answer.message, "error", "code")
    untouched = first_answer is None and turn.answer.ok
    failure = f"a second prompt gave {code or 'a result'}; the first {'continues' if untouched else 'ended'}"
    reason = f"a second prompt gave {code}; the first continues"
    passed = fixture.script.accepts_code(code, -32600) and untouched
    fixture.judge(rule, passed, reason, failure, second, second_answer)


def _check_cancelled_turn(fixture: AgentFixture, turn: AgentTurn) -> None:
    rule = "cancel.no-error"
    answer = turn.answer
    if not answer.ok:
        fixture.add_fail(rule, f"a canceled turn gave {answer.summary}", answer)
        return
    fixture.add_pass(rule, "a canceled turn is not an error", answer)
    failure = f"a canceled turn ended with {turn.stop_reason!r}"
    fixture.judge(
        "cancel.stop-reason", turn.stop_reason == "cancelled", "a canceled turn says so", failure, answer
    )


@case(
    "cancel.stop-reason cancel.no-error cancel.soon cancel.updates-before-response "
    "cancel.session-continues terminal.always-released"
)
async def cancel_turn(fixture: AgentFixture) -> None:
    """Canceling a turn: session/cancel while the turn is busy."""
    # Once with a client that has terminals, once without.
    rule = "cancel.session-continues"
    for capabilities in (None, capabilities_without("terminal")):
        agent, session = await (
            fixture.open_session() if capabilities is None else fixture.open_session(capabilities)
        )
        request = await fixture.start_busy_turn(agent, session)
        cancel = agent.cancel(session)
        answer_line = await agent.wait_for_line(
            lambda line, id=request.id: line.is_answer and line.id == id,
            since=request.number,
            timeout=fixture.timeouts.soon,
        )
        if answer_line is None:
            failure = f"{fixture.timeouts.soon:g} seconds after the cancel the turn still runs"
            fixture.add_fail("cancel.soon", failure, request)
            return
        turn = await agent.finish_turn(request, rule="cancel.stop-reason")
        if not await fixture.was_stopped(turn, cancel):
            raise CaseUnavailable(TURN_ENDED)
        fixture.add_pass("cancel.soon", "the turn ends soon", request)
        _check_cancelled_turn(fixture, turn)
        agent.responder.keep_terminals_running = False
        if fixture.has_action("talk"):
            await fixture.require_plain_turn(agent, await fixture.new_session(agent))
            next_turn = await agent.run_turn(session, fixture.action("talk").prompt_text(), rule=rule)
            failure = f"a prompt after a canceled turn gave {next_turn.answer.summary}"
            worked = next_turn.answer.ok and next_turn.stop_reason != "cancelled"
            fixture.judge(rule, worked, "the session continues", failure, next_turn.answer)
        await agent.ping()


@case("cancel.without-turn")
async def cancel_without_turn(fixture: AgentFixture) -> None:
    """Cancel without a turn: session/cancel without a turn."""
    rule = "cancel.without-turn"
    agent, session = await fixture.open_session()
    await fixture.require_plain_turn(agent, session)
    agent.cancel(session)
    turn = await agent.run_turn(session, fixture.action("talk").prompt_text(), rule=rule)
    failure = f"after a cancel without a turn a prompt gave {turn.answer.summary}"
    worked = turn.answer.ok and turn.stop_reason != "cancelled"
    fixture.judge(rule, worked, "it is harmless", failure, turn)


@case("cancel-request.agent-still-answered")
async def cancel_request(fixture: AgentFixture) -> None:
    """Canceling a request: $/cancel_request for a prompt."""
    rule = "cancel-request.agent-still-answered"
    agent, session = await fixture.open_session()
    request = await fixture.start_busy_turn(agent, session)
    cancel = agent.notify("$/cancel_request", {"requestId": request.id})
    line = await agent.wait_for_line(
        lambda line: line.is_answer and line.id == request.id,
        since=request.number,
        timeout=fixture.timeouts.soon,
    )
    if line is None:
        agent.cancel(session)
        await agent.finish_turn(request, rule=rule, timeout=fixture.timeouts.soon)
        raise CaseUnavailable("it ignores $/cancel_request, which is allowed")
    answer = await agent.wait_for_answer(request, rule=rule)
    if line.number < cancel.number:
        raise CaseUnavailable(TURN_ENDED)
    passed = answer.ok or answer.code == -32800
    failure = f"$/cancel_request gave {answer.summary}; expected a result or -32800"
    fixture.judge(rule, passed, f"it gave {answer.summary}", failure, answer)
    await agent.ping()


@case("cancel.permission-outcome")
async def cancel_during_permission_request(fixture: AgentFixture) -> None:
    """Cancel during a permission request: session/cancel while a permission request is pending."""
    # Cancel a turn during a permission request; the request may be answered in two ways.
    rule = "cancel.permission-outcome"
    answers = (CANCELLED_REPLY, error_reply(-32800, "Request cancelled"))
    agent = await fixture.start_agent()
    for reply in answers:
        session = await fixture.new_session(agent)
        agent.responder.overrides["session/request_permission"] = leave_unanswered
        request = agent.prompt(session, fixture.action("permission").prompt_text(file="cancelled.txt"))
        permission = await fixture.wait_for_permission_request(agent, request)
        cancel = agent.cancel(session)
        agent.reply(permission, reply)
        turn = await agent.finish_turn(request, rule=rule, timeout=fixture.timeouts.soon)
        if turn.answer.line.number < cancel.number:
            raise CaseUnavailable("the turn ended before the permission request was answered")
        failure = f"after a canceled permission request the turn gave {turn.answer.summary}"
        if turn.answer.ok:
            _check_cancelled_turn(fixture, turn)
        fixture.judge(rule, turn.answer.ok, "the turn ends normally", failure, turn.answer)


_TOOL_REQUESTS: Final = (
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "session/request_permission",
)


def _check_tool_call_reported(fixture: AgentFixture, turn: AgentTurn) -> bool:
    """Judge whether tool calls are reported; a side effect without one breaks the rule."""
    rule = "tool-call.reported"
    if turn.updates("tool_call"):
        fixture.add_pass(rule, "tools are reported", turn.updates("tool_call")[0])
        return True
    side_effects = turn.requests(*_TOOL_REQUESTS)
    if side_effects:
        # An update without an announcement breaks another rule.
        if not turn.updates("tool_call_update"):
            fixture.add_fail(rule, f"{side_effects[0].method} without a tool call", side_effects[0])
    else:
        fixture.add_not_shown(rule, "no tool was used")
    return False


@case(
    "tool-call.reported tool-call.members tool-call.unique-id tool-call.kind tool-call.status "
    "tool-call.content tool-call.absolute-paths tool-call.line-number tool-call.announced "
    "tool-call.in-progress tool-call.final-status file.read-needs-capability file.absolute-paths"
)
async def read_file(fixture: AgentFixture) -> None:
    """Reading a file: the read action, twice, and the search action."""
    agent, session = await fixture.open_session()
    for _ in range(2):
        turn = await fixture.run_action(agent, session, "read", file="notes.txt")
        _check_tool_call_reported(fixture, turn)
    if fixture.has_action("search"):
        await fixture.run_action(agent, session, "search", text=NOTES_WORD)


@case("tool-call.reported tool-call.new-file-diff file.write-needs-capability file.absolute-paths")
async def write_file(fixture: AgentFixture) -> None:
    """Writing a file: the write action."""
    rule = "tool-call.new-file-diff"
    agent, session = await fixture.open_session()
    turn = await fixture.run_action(agent, session, "write", file="made.txt", text="hello")
    _check_tool_call_reported(fixture, turn)
    diffs = [
        (line, one)
        for line in turn.lines
        for one in [*listed(line.update, "content"), *listed(line.params, "toolCall", "content")]
        if at(one, "type") == "diff" and at(one, "path") == str(fixture.folder / "made.txt")
    ]
    for line, diff in diffs[:1]:
        failure = f"the diff of a new file has oldText {at(diff, 'oldText')!r}"
        fixture.judge(rule, at(diff, "oldText") is None, "a new file has no old text", failure, line)
    if not diffs:
        fixture.add_not_shown(rule, "no diff of the new file was shown")


@case("file.null-write-result")
async def null_result_of_write(fixture: AgentFixture) -> None:
    """A write answered with null: the write action, and the client answers null."""
    agent, session = await fixture.open_session()

    def write(line: WireLine) -> Reply:
        path = fixture.folder / "made.txt"
        path.write_text("hello")
        return result_reply(None)

    agent.responder.overrides["fs/write_text_file"] = write
    turn = await fixture.run_action(agent, session, "write", file="made.txt", text="hello")
    written = turn.requests("fs/write_text_file")
    if not written:
        raise CaseUnavailable("nothing was written through the client")
    failed = [line for line in turn.updates("tool_call_update") if line.update.get("status") == "failed"]
    passed = turn.answer.ok and not failed
    frames = [written[0], *failed[:1], turn.answer.line]
    fixture.judge(
        "file.null-write-result", passed, "null counts as success", "null counts as a failure", *frames
    )


@case(
    "tool-call.reported tool-call.terminal-before-release terminal.needs-capability "
    "terminal.always-released terminal.absolute-cwd"
)
async def run_command(fixture: AgentFixture) -> None:
    """Running a command: the run action."""
    agent, session = await fixture.open_session()
    turn = await fixture.run_action(agent, session, "run")
    _check_tool_call_reported(fixture, turn)


@case("file.read-needs-capability file.write-needs-capability terminal.needs-capability")
async def missing_client_capabilities(fixture: AgentFixture) -> None:
    """Clients without a capability: each action with a client that lacks the capability it needs."""
    # The agent must not use a capability that the client lacks.
    actions: tuple[tuple[RuleId, str, str, dict[str, str], str], ...] = (
        ("file.read-needs-capability", "fs.readTextFile", "read", {"file": "notes.txt"}, "fs/read_text_file"),
        (
            "file.write-needs-capability",
            "fs.writeTextFile",
            "write",
            {"file": "no-capability.txt", "text": "x"},
            "fs/write_text_file",
        ),
        ("terminal.needs-capability", "terminal", "run", {}, "terminal/create"),
    )
    for rule, capability, action, values, method in actions:
        if not fixture.has_action(action):
            continue
        agent, session = await fixture.open_session(capabilities_without(capability))
        turn = await fixture.run_action(agent, session, action, **values)
        used = turn.updates("tool_call", "tool_call_update") or turn.requests(*_TOOL_REQUESTS)
        if not turn.requests(method) and used:
            fixture.add_pass(rule, f"no {method} without {capability}", used[0])
