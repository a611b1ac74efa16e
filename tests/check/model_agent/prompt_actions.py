"""The actions of the model agent, one function for each command word."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.check.model_agent.connection import ErrorResponse
from tests.check.model_agent.state import MODES, Session, absolute

from accord.check.agent.session_resume_cases import SYSTEM_PROMPT_WORD

if TYPE_CHECKING:
    from tests.check.model_agent.turns import Turns

Action = Callable[["Turns", Session, str], Coroutine[Any, Any, None]]


async def say(turns: "Turns", session: Session, rest: str) -> None:
    if session.values.get("broken") and turns.breaks("session.broken-mcp-server"):
        raise ErrorResponse(-32603)
    turns.update(
        session,
        {"sessionUpdate": "usage_update", "used": 5, "size": 100, "cost": {"amount": 0.1, "currency": "USD"}},
    )
    turns.update(session, {"sessionUpdate": "session_info_update", "title": "A talk"})
    turns.say(session, "Hello, ")
    turns.say(
        session,
        "world. "
        + (
            SYSTEM_PROMPT_WORD
            if SYSTEM_PROMPT_WORD in session.system and not turns.breaks("system-prompt.applied")
            else ""
        ),
        fresh=False,
    )


async def lines(turns: "Turns", session: Session, rest: str) -> None:
    if turns.breaks("framing.agent-one-line"):
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "one two"}}
        turns.send_over_several_lines(
            {"method": "session/update", "params": {"sessionId": session.id, "update": update}}
        )
    else:
        turns.say(session, "one\ntwo\nthree")


async def echo(turns: "Turns", session: Session, rest: str) -> None:
    other = [one for one in turns.agent.sessions.open.values() if one is not session]
    if turns.breaks("session.independent") and other:
        turns.say(other[0], rest)
    if turns.breaks("framing.agent-utf8"):
        turns.agent.send_raw(b'{"jsonrpc":"2.0","method":"_model/ready","params":{"name":"na\xefve"}}')
    turns.say(session, rest)


async def think(turns: "Turns", session: Session, rest: str) -> None:
    turns.say(session, "hm", "agent_thought_chunk")
    await say(turns, session, rest)


async def plan(turns: "Turns", session: Session, rest: str) -> None:
    steps = ["look", "change", "test"]
    newer = turns.agent.offers("plan")
    for done in range(2):
        entries = [
            {"content": step, "priority": "medium", "status": "completed" if place < done else "pending"}
            for place, step in enumerate(steps)
        ]
        if newer or turns.breaks("plan.update-needs-capability"):
            plan = {"type": "items", "planId": "p", "entries": entries}
            turns.update(session, {"sessionUpdate": "plan_update", "plan": plan})
        if not turns.breaks("plan.fallback"):
            turns.update(
                session,
                {
                    "sessionUpdate": "plan",
                    "entries": entries[1:2] if done and turns.breaks("plan.complete") else entries,
                },
            )


class ToolCall:
    """A tool call, from its announcement to its end."""

    def __init__(self, turns: "Turns", session: Session, title: str, kind: str, path: str) -> None:
        self.turns, self.session = turns, session
        turns.calls += 1
        self.id = "call" if turns.breaks("tool-call.unique-id") else f"call-{session.id}-{turns.calls}"
        if turns.breaks("tool-call.reported"):
            return
        places = [{"path": path, "line": 1}] if absolute(path) else []
        call = {"toolCallId": self.id, "title": title, "kind": kind, "status": "pending", "locations": places}
        if not turns.breaks("tool-call.announced"):
            turns.update(session, {"sessionUpdate": "tool_call", **call})

    def change(self, **members: Any) -> None:
        if not self.turns.breaks("tool-call.reported"):
            self.turns.update(
                self.session, {"sessionUpdate": "tool_call_update", "toolCallId": self.id, **members}
            )

    def begin(self) -> None:
        if not self.turns.breaks("tool-call.in-progress"):
            self.change(status="in_progress")

    def end(self, text: str = "", status: str = "completed", content: list[Any] | None = None) -> None:
        content = (
            [{"type": "content", "content": {"type": "text", "text": text}}] if content is None else content
        )
        if not self.turns.breaks("tool-call.final-status"):
            self.change(status=status, content=content)


async def read(turns: "Turns", session: Session, rest: str) -> None:
    agent, path = turns.agent, Path(session.cwd) / rest
    if turns.breaks("session.relative-paths-in-cwd") and session.roots and not absolute(rest):
        path = Path(session.roots[0]) / rest
    if turns.breaks("session.works-in-cwd") and not absolute(rest):
        path = Path(agent.start_folder) / rest
    call = ToolCall(turns, session, f"Read {rest}", "read", str(path))
    call.begin()
    inside = any(path.is_relative_to(root) for root in [session.cwd, *session.roots])
    if not inside and not (
        turns.breaks("session.files-inside-roots") or turns.breaks("session.works-in-cwd")
    ):
        call.end("outside", "failed")
        turns.say(session, "That is outside.")
        return
    through_client = agent.offers("fs", "readTextFile")
    through_client = (
        through_client
        or (turns.breaks("file.read-needs-capability") and not agent.no_capabilities)
        or (turns.breaks("initialize.missing-client-capability") and agent.no_capabilities)
    )
    try:
        if through_client:
            result = await agent.ask("fs/read_text_file", {"sessionId": session.id, "path": str(path)})
            text = result["content"]
        else:
            text = path.read_text()
    except (ErrorResponse, OSError):
        call.end("no such file", "failed")
        return
    call.end(text)
    turns.say(session, text)


async def write(turns: "Turns", session: Session, rest: str) -> None:
    agent, (name, _, text) = turns.agent, rest.partition(" ")
    path = Path(session.cwd) / name
    call = ToolCall(turns, session, f"Write {name}", "edit", str(path))
    call.begin()
    old = "" if turns.breaks("tool-call.new-file-diff") else None
    diff = [{"type": "diff", "path": str(path), "oldText": old, "newText": text}]
    result: Any = {}
    if agent.offers("fs", "writeTextFile") or (
        turns.breaks("file.write-needs-capability") and not agent.no_capabilities
    ):
        try:
            result = await agent.ask(
                "fs/write_text_file", {"sessionId": session.id, "path": str(path), "content": text}
            )
        except ErrorResponse:
            result = {}
    else:
        path.write_text(text)
    if result is None and turns.breaks("file.null-write-result"):
        call.end(status="failed", content=diff)
    else:
        call.end(content=diff)


KINDS = {"allow": "allow_once", "always": "allow_always", "reject": "reject_once"}


async def write_with_permission(turns: "Turns", session: Session, rest: str) -> None:
    path = Path(session.cwd) / rest
    call = ToolCall(turns, session, f"Make {rest}", "edit", str(path))
    if turns.breaks("permission.nothing-before-answer"):
        path.write_text("too early")
    turns.permission_path = path
    if session.always_allowed or await ask_permission(turns, session, call):
        call.begin()
        path.write_text("made")
        call.end("made")
    else:
        call.end("refused", "failed")
    turns.say(session, "So be it.")


async def ask_permission(turns: "Turns", session: Session, call: ToolCall) -> bool:
    options = [{"optionId": id, "name": id.title(), "kind": kind} for id, kind in KINDS.items()]
    tool = {"toolCallId": call.id, "title": "Make it"}
    params = {"sessionId": session.id, "toolCall": tool, "options": options}
    session.permission_pending = True
    try:
        answer = await turns.agent.ask("session/request_permission", params)
    except ErrorResponse as error_response:
        if turns.breaks("cancel.permission-outcome") and error_response.code == -32800:
            raise
        return turns.breaks("permission.only-consent-allows")
    finally:
        session.permission_pending = False
    if turns.breaks("cancel.permission-outcome") and answer == {"outcome": {"outcome": "cancelled"}}:
        raise asyncio.CancelledError
    if answer is None and turns.breaks("fault-types"):
        return True
    outcome = answer.get("outcome") if isinstance(answer, dict) else None
    if outcome == "allow_once" and (not turns.agent.strict or turns.breaks("accord.agent-strict-mode")):
        return True
    if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
        return False
    option_id = outcome.get("optionId")
    session.always_allowed = (
        session.always_allowed
        or option_id == "always"
        or (turns.breaks("permission.remembered") and option_id == "allow")
    )
    if option_id == "reject":
        return turns.breaks("permission.reject-prevents")
    return option_id in ("allow", "always") or turns.breaks("accord.dialect-is-not-consent")


async def run(turns: "Turns", session: Session, rest: str) -> None:
    await run_in_terminal(turns, session, "echo")


async def busy(turns: "Turns", session: Session, rest: str) -> None:
    await run_in_terminal(turns, session, "sleep")


async def run_in_terminal(turns: "Turns", session: Session, command: str) -> None:
    agent = turns.agent
    call = ToolCall(turns, session, f"Run {command}", "execute", session.cwd)
    call.begin()
    if not (
        agent.offers("terminal") or (turns.breaks("terminal.needs-capability") and not agent.no_capabilities)
    ):
        if command == "sleep":
            await asyncio.Event().wait()
        call.end("done")
        return
    params = {"sessionId": session.id}
    try:
        created = await agent.ask(
            "terminal/create", {**params, "command": command, "args": [], "env": [], "cwd": session.cwd}
        )
    except ErrorResponse:
        call.end("no terminal", "failed")
        return
    params["terminalId"] = created["terminalId"]
    content = [{"type": "terminal", "terminalId": created["terminalId"]}]
    if not turns.breaks("tool-call.terminal-before-release"):
        call.change(content=content)
    try:
        await agent.ask("terminal/wait_for_exit", params)
    finally:
        if not turns.breaks("terminal.always-released"):
            agent.send_request("terminal/release", params)
    call.end(content=content)


async def ask(turns: "Turns", session: Session, rest: str) -> None:
    agent = turns.agent
    if not agent.offers("elicitation", "form") and not turns.breaks("elicitation.mode-needs-capability"):
        turns.say(session, "The client shows no forms.")
        return
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    params = {"mode": "form", "message": "Which color?", "sessionId": session.id, "requestedSchema": schema}
    try:
        answer = await agent.ask("elicitation/create", params)
    except ErrorResponse:
        turns.say(session, "No answer.")
        return
    if turns.breaks("elicitation.declined") and answer["action"] == "decline":
        raise ErrorResponse(-32603)
    if turns.breaks("elicitation.null-content") and "content" in answer and answer["content"] is None:
        raise ErrorResponse(-32603)
    accepted = answer["action"] == "accept" or (
        turns.breaks("elicitation.unknown-action") and answer["action"] == "_x"
    )
    turns.say(
        session, str((answer.get("content") or {}).get("answer", "nothing")) if accepted else "No answer."
    )


async def page(turns: "Turns", session: Session, rest: str) -> None:
    agent = turns.agent
    if not agent.offers("elicitation", "url"):
        return
    ids = ["e1", "e2"]
    for id in ids:
        params = {
            "mode": "url",
            "message": "Look",
            "sessionId": session.id,
            "url": "https://example.com/",
            "elicitationId": id,
        }
        await agent.ask("elicitation/create", params)
    agent.notify(
        "elicitation/complete",
        {"elicitationId": "e1" if turns.breaks("elicitation.unique-id") is False else "one"},
    )


async def change_mode(turns: "Turns", session: Session, rest: str) -> None:
    session.mode = next(mode for mode in MODES if mode != session.mode)
    if not turns.breaks("mode.agent-change-sent"):
        turns.update(session, {"sessionUpdate": "current_mode_update", "currentModeId": session.mode})
    turns.send_options(session)


async def command(turns: "Turns", session: Session, rest: str) -> None:
    turns.say(session, "What?" if turns.breaks("command.recognized") else "hello from the command")


async def tell(turns: "Turns", session: Session, rest: str) -> None:
    session.word = rest
    turns.say(session, "ok")


async def recall(turns: "Turns", session: Session, rest: str) -> None:
    turns.say(session, session.word)


async def notice(turns: "Turns", session: Session, rest: str) -> None:
    if turns.agent.offers("session", "notices") or turns.breaks("notice.needs-capability"):
        turns.update(session, {"sessionUpdate": "notice", "severity": "info", "title": "Mind this"})
    if not turns.agent.offers("session", "notices") and not turns.breaks("notice.text-as-fallback"):
        turns.say(session, "Mind this")
    if turns.breaks("notice.optional") and turns.agent.offers("session", "notices"):
        raise ErrorResponse(-32603)


async def compact(turns: "Turns", session: Session, rest: str) -> None:
    if not turns.agent.offers("session", "compaction") and not turns.breaks("compaction.needs-capability"):
        return
    turns.calls += 1
    id = "c" if turns.breaks("compaction.ends-once") else f"c{turns.calls}"
    for status in ("in_progress", "completed"):
        turns.update(session, {"sessionUpdate": "compaction_update", "compactionId": id, "status": status})


async def delegate(turns: "Turns", session: Session, rest: str) -> None:
    if not turns.agent.offers("subagents") and not turns.breaks("subagent.needs-capability"):
        turns.say(session, "I do it myself.")
        return
    child = Session("child", session.cwd)
    words = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "child"}}
    if turns.breaks("subagent.announced"):
        turns.update(child, words)
    turns.update(session, {"sessionUpdate": "subagent_update", "sessionId": "child", "cwd": session.cwd})
    if not turns.breaks("subagent.announced"):
        turns.update(child, words)


async def mcp(turns: "Turns", session: Session, rest: str) -> None:
    params = {"serverId": session.acp, "requestId": "1", "method": "tools/list", "params": {}}
    await turns.agent.ask("mcp/message", params)


ACTIONS: dict[str, Action] = {
    **{
        action.__name__: action
        for action in (
            *(
                say,
                lines,
                echo,
                think,
                plan,
                read,
                write,
                write_with_permission,
                run,
                busy,
                ask,
                page,
                change_mode,
                tell,
                recall,
            ),
            *(notice, compact, delegate, mcp),
        )
    },
    "/hello": command,
}
