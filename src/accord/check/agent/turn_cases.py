"""Cases: prompts, cancellation, tool calls, files and terminals."""

from typing import Any, Final

from accord.check.agent.agent_fixture import (
    NO_STRICT_MODE,
    NOTES_WORD,
    AgentCase,
    AgentFixture,
    capabilities_without,
)
from accord.check.agent.agent_under_test import AgentTurn
from accord.check.agent.client_responder import CANCELLED_REPLY
from accord.check.checked_connection import Reply, WireLine, error_reply, leave_unanswered, result_reply
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at, listed

NON_ASCII_TEXT: Final = "日本語 🎉 naïve"


async def plain_turn(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    turn = await fixture.run_action(agent, session, "talk")
    failure = f"a prompt of text gave {turn.answer.summary}"
    fixture.notes.judge(139, turn.answer.ok, "text is accepted", failure, turn.answer.evidence)
    fixture.notes.add_pass(143, "every prompt is answered", turn.answer.evidence)
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
    fixture.notes.judge(140, link_turn.answer.ok, "links are accepted", failure, link_turn.answer.evidence)
    await agent.ping()


async def special_texts(fixture: AgentFixture) -> None:
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
            fixture.notes.add_pass(5, "emoji and CJK are returned unchanged", turn.answer.evidence[:1])
        elif wrong_texts:
            fixture.notes.add_fail(
                5,
                f"{NON_ASCII_TEXT} was returned as {wrong_texts[0]!r}",
                [line.evidence for line in turn.lines[-2:]],
            )
    if fixture.has_action("talk"):
        await fixture.require_plain_turn(agent, session)
        text = fixture.action("talk").prompt_text() + " \\ud83d"
        params = f'{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}'
        request = agent.send(f'{{"jsonrpc":"2.0","id":"half","method":"session/prompt","params":{params}}}')
        turn = await agent.finish_turn(request, rule=392)
        failure = f"half of a surrogate pair gave {turn.answer.summary}"
        fixture.notes.judge(
            392, turn.answer.ok, "half of a surrogate pair is accepted", failure, turn.answer.evidence
        )


async def malformed_prompts(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    await _check_refusal(fixture, agent, session, [{"type": "text"}])
    strict = await fixture.start_strict_agent()
    if strict is None:
        fixture.notes.add_skipped_part(151, NO_STRICT_MODE)
        return
    await _check_refusal(fixture, strict, await fixture.new_session(strict), "hi")


async def _check_refusal(fixture: AgentFixture, agent: Any, session: str, prompt: Any) -> None:
    answer = await agent.call("session/prompt", {"sessionId": session, "prompt": prompt})
    failure = f"the prompt {prompt!r} gave {answer.summary}; expected -32602"
    fixture.notes.judge(151, answer.code == -32602, "malformed prompts are refused", failure, answer.evidence)


async def requests_during_turn(fixture: AgentFixture) -> None:
    """During a turn, modes and options can be set, and a second prompt is refused."""
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
        answer = await agent.wait_for_answer(sent, rule=157, timeout=fixture.timeouts.soon)
        failure = f"{method} in a turn gave {answer.summary}"
        fixture.notes.judge(157, answer.ok, f"{method} works in a turn", failure, answer.evidence)
    if not calls:
        fixture.notes.add_not_applicable(157, "it has neither modes nor options")
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
    turn = await agent.finish_turn(request, rule=385, timeout=fixture.timeouts.soon)
    if turn.answer.ok and turn.stop_reason != "cancelled":
        raise CaseUnavailable("the busy turn ended by itself, so the second prompt was not judged")
    if second_answer is None:
        fixture.notes.add_fail(385, "a second prompt in a busy session is not refused", [second.evidence])
        return
    code = at(second_answer.message, "error", "code")
    untouched = first_answer is None and turn.answer.ok
    failure = f"a second prompt gave {code or 'a result'}; the first {'continues' if untouched else 'ended'}"
    fixture.notes.judge(
        385,
        fixture.script.accepts_code(code, -32600) and untouched,
        f"a second prompt gave {code}; the first continues",
        failure,
        (second.evidence, second_answer.evidence),
    )


PROMPT_CASES: Final = (
    AgentCase(
        "a plain turn",
        "a prompt of text, and one with a resource link",
        (42, 139, 140, 142, 143, 144, 145, 146, 147, 310),
        plain_turn,
    ),
    AgentCase(
        "special texts", "several lines, emoji and CJK, half of a surrogate pair", (3, 5, 392), special_texts
    ),
    AgentCase(
        "malformed prompts",
        "a text block without text; a bare text in strict mode",
        (151,),
        malformed_prompts,
    ),
    AgentCase(
        "requests during a turn", "modes, options and a second prompt", (157, 385), requests_during_turn
    ),
)


def _check_cancelled_turn(fixture: AgentFixture, turn: AgentTurn) -> None:
    answer = turn.answer
    if not answer.ok:
        fixture.notes.add_fail(162, f"a canceled turn gave {answer.summary}", answer.evidence)
        return
    fixture.notes.add_pass(162, "a canceled turn is not an error", answer.evidence)
    failure = f"a canceled turn ended with {turn.stop_reason!r}"
    fixture.notes.judge(
        161, turn.stop_reason == "cancelled", "a canceled turn says so", failure, answer.evidence
    )


async def cancel_turn(fixture: AgentFixture) -> None:
    """Once with a client that has terminals, once without."""
    for capabilities in (None, capabilities_without("terminal")):
        agent, session = await (
            fixture.open_session() if capabilities is None else fixture.open_session(capabilities)
        )
        request = await fixture.start_busy_turn(agent, session)
        agent.cancel(session)
        answer_line = await agent.wait_for_line(
            lambda line, id=request.id: line.is_answer and line.id == id,
            since=request.number,
            timeout=fixture.timeouts.soon,
        )
        failure = f"{fixture.timeouts.soon:g} seconds after the cancel the turn still runs"
        fixture.notes.judge(163, answer_line is not None, "the turn ends soon", failure, [request.evidence])
        if answer_line is None:
            return
        turn = await agent.finish_turn(request, rule=161)
        _check_cancelled_turn(fixture, turn)
        agent.responder.keep_terminals_running = False
        if fixture.has_action("talk"):
            await fixture.require_plain_turn(agent, await fixture.new_session(agent))
            next_turn = await agent.run_turn(session, fixture.action("talk").prompt_text(), rule=170)
            failure = f"a prompt after a canceled turn gave {next_turn.answer.summary}"
            worked = next_turn.answer.ok and next_turn.stop_reason != "cancelled"
            fixture.notes.judge(170, worked, "the session continues", failure, next_turn.answer.evidence)
        await agent.ping()


async def cancel_without_turn(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    await fixture.require_plain_turn(agent, session)
    agent.cancel(session)
    turn = await agent.run_turn(session, fixture.action("talk").prompt_text(), rule=168)
    failure = f"after a cancel without a turn a prompt gave {turn.answer.summary}"
    worked = turn.answer.ok and turn.stop_reason != "cancelled"
    fixture.notes.judge(168, worked, "it is harmless", failure, turn.answer.evidence)


async def cancel_request(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    request = await fixture.start_busy_turn(agent, session)
    agent.notify("$/cancel_request", {"requestId": request.id})
    line = await agent.wait_for_line(
        lambda line: line.is_answer and line.id == request.id,
        since=request.number,
        timeout=fixture.timeouts.soon,
    )
    if line is None:
        agent.cancel(session)
        await agent.finish_turn(request, rule=50, timeout=fixture.timeouts.soon)
        raise CaseUnavailable("it ignores $/cancel_request, which is allowed")
    answer = await agent.wait_for_answer(request, rule=50)
    passed = answer.ok or answer.code == -32800
    failure = f"$/cancel_request gave {answer.summary}; expected a result or -32800"
    fixture.notes.judge(50, passed, f"it gave {answer.summary}", failure, answer.evidence)
    await agent.ping()


async def cancel_during_permission_request(fixture: AgentFixture) -> None:
    """Cancel a turn during a permission request; the request may be answered in two ways."""
    answers = (CANCELLED_REPLY, error_reply(-32800, "Request cancelled"))
    agent = await fixture.start_agent()
    for reply in answers:
        session = await fixture.new_session(agent)
        agent.responder.overrides["session/request_permission"] = leave_unanswered
        request = agent.prompt(session, fixture.action("permission").prompt_text(file="cancelled.txt"))
        permission = await fixture.wait_for_permission_request(agent, request)
        agent.cancel(session)
        agent.reply(permission, reply)
        turn = await agent.finish_turn(request, rule=169, timeout=fixture.timeouts.soon)
        failure = f"after a canceled permission request the turn gave {turn.answer.summary}"
        if turn.answer.ok:
            _check_cancelled_turn(fixture, turn)
        fixture.notes.judge(169, turn.answer.ok, "the turn ends normally", failure, turn.answer.evidence)


CANCEL_CASES: Final = (
    AgentCase(
        "canceling a turn",
        "session/cancel while the turn is busy",
        (161, 162, 163, 164, 170, 257),
        cancel_turn,
    ),
    AgentCase("cancel without a turn", "session/cancel without a turn", (168,), cancel_without_turn),
    AgentCase("canceling a request", "$/cancel_request for a prompt", (50,), cancel_request),
    AgentCase(
        "cancel during a permission request",
        "session/cancel while a permission request is pending",
        (169,),
        cancel_during_permission_request,
    ),
)


_TOOL_CALL_RULES: Final = (173, 174, 175, 176, 177, 178, 180, 181, 182, 183)
_TOOL_REQUESTS: Final = (
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "session/request_permission",
)


def _check_tool_call_reported(fixture: AgentFixture, turn: AgentTurn) -> bool:
    """Judge whether tool calls are reported; a side effect without one breaks the rule."""
    if turn.updates("tool_call"):
        fixture.notes.add_pass(172, "tools are reported", [turn.updates("tool_call")[0].evidence])
        return True
    side_effects = turn.requests(*_TOOL_REQUESTS)
    if side_effects:
        # An update without an announcement breaks another rule.
        if not turn.updates("tool_call_update"):
            fixture.notes.add_fail(
                172, f"{side_effects[0].method} without a tool call", [side_effects[0].evidence]
            )
    else:
        fixture.notes.add_not_shown(172, "no tool was used")
    return False


async def read_file(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    for _ in range(2):
        turn = await fixture.run_action(agent, session, "read", file="notes.txt")
        _check_tool_call_reported(fixture, turn)
    if fixture.has_action("search"):
        await fixture.run_action(agent, session, "search", text=NOTES_WORD)


async def write_file(fixture: AgentFixture) -> None:
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
        fixture.notes.judge(
            179, at(diff, "oldText") is None, "a new file has no old text", failure, [line.evidence]
        )
    if not diffs:
        fixture.notes.add_not_shown(179, "no diff of the new file was shown")


async def null_result_of_write(fixture: AgentFixture) -> None:
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
    frames = [written[0].evidence, *(line.evidence for line in failed[:1]), turn.answer.line.evidence]
    fixture.notes.judge(246, passed, "null counts as success", "null counts as a failure", frames)


async def run_command(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    turn = await fixture.run_action(agent, session, "run")
    _check_tool_call_reported(fixture, turn)


async def missing_client_capabilities(fixture: AgentFixture) -> None:
    """The agent must not use a capability that the client lacks."""
    actions: tuple[tuple[int, str, str, dict[str, str], str], ...] = (
        (236, "fs.readTextFile", "read", {"file": "notes.txt"}, "fs/read_text_file"),
        (237, "fs.writeTextFile", "write", {"file": "no-capability.txt", "text": "x"}, "fs/write_text_file"),
        (247, "terminal", "run", {}, "terminal/create"),
    )
    for rule, capability, action, values, method in actions:
        if not fixture.has_action(action):
            continue
        agent, session = await fixture.open_session(capabilities_without(capability))
        turn = await fixture.run_action(agent, session, action, **values)
        used = turn.updates("tool_call", "tool_call_update") or turn.requests(*_TOOL_REQUESTS)
        if not turn.requests(method) and used:
            fixture.notes.add_pass(rule, f"no {method} without {capability}", [used[0].evidence])


TOOL_CALL_CASES: Final = (
    AgentCase(
        "reading a file",
        "the read action, twice, and the search action",
        (172, *_TOOL_CALL_RULES, 236, 238),
        read_file,
    ),
    AgentCase("writing a file", "the write action", (172, 179, 237, 238), write_file),
    AgentCase(
        "a write answered with null",
        "the write action, and the client answers null",
        (246,),
        null_result_of_write,
    ),
    AgentCase("running a command", "the run action", (172, 190, 247, 257, 258), run_command),
    AgentCase(
        "clients without a capability",
        "each action with a client that lacks the capability it needs",
        (236, 237, 247),
        missing_client_capabilities,
    ),
)


CASES: Final = (
    *PROMPT_CASES,
    *CANCEL_CASES,
    *TOOL_CALL_CASES,
)
