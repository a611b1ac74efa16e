"""A session with a permission gate: real tools in a project on disk, a small agent, and a raw client.

The prompt holds the calls of one model answer as JSON. The agent runs them in order, or in parallel when
the prompt says `together`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.agent.agent_client import Client, connected_client, make_agent

from accord.agent import AgentOptions, PermissionAnswer, Turn
from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.permissions.permission_gate import PermissionGate, PermissionRuling
from accord.coder.permissions.permission_settings import QUESTION_SECONDS
from accord.coder.tools import built_in_tools
from accord.coder.tools.tool import PreparedCall, Tool, ToolProgress
from accord.coder.tools.tool_context import ToolContext
from accord.policy import Decision, DecisionLog, Mode, Policy, SessionDirectories, read_permissions
from accord.schema import PermissionOption
from accord.wire.envelope import Message

TOOLS = built_in_tools()
ALLOW, ALWAYS, REJECT, NEVER = "allow_once", "allow_always", "reject_once", "reject_always"


@dataclass
class FakeSandboxStatus:
    """The sandbox state that a test sets."""

    is_effective: bool = False
    unavailable_reason: str = ""


@dataclass
class GateSession:
    """The permissions of one session and the results of its calls."""

    root: Path
    gate: PermissionGate
    audit: DecisionLog
    context: ToolContext
    sandbox: Any
    mode: Mode = "ask"
    rulings: list[PermissionRuling] = field(default_factory=list[PermissionRuling])
    results: list[str] = field(default_factory=list[str])

    async def ruling(self, tool: str, answer: Any = None, /, **arguments: Any) -> PermissionRuling:
        """Rule on a call without a client. A question gets this answer; without one it fails the test."""
        call = await TOOLS[tool].prepare(arguments, self.context)
        return await self.rule(TOOLS[tool], call, answer)

    async def rule(self, tool: Tool, call: PreparedCall, answer: Any = None) -> PermissionRuling:
        """Rule on a prepared call."""

        async def ask(options: Any, decision: Decision) -> PermissionAnswer:
            if answer is None:
                unexpected.append(decision)
                return PermissionAnswer()
            if not isinstance(answer, str):
                return answer(options, decision)
            return PermissionAnswer(chosen(options, answer), "selected")

        unexpected: list[Decision] = []
        ruling = await self.gate.ruling(tool, call, ask)
        assert not unexpected
        return ruling

    async def asked_decision(self, tool: str, **arguments: Any) -> Decision:
        """Reject the call and return the decision that led to the question."""
        decisions: list[Decision] = []

        def no(options: Any, decision: Decision) -> PermissionAnswer:
            decisions.append(decision)
            return PermissionAnswer(chosen(options, REJECT), "selected")

        assert not (await self.ruling(tool, no, **arguments)).allowed
        return decisions[0]

    def audit_lines(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log."""
        return [json.loads(line) for line in self.audit.path.read_text().splitlines()]

    async def run_turn(self, turn: Turn) -> None:
        """Run the calls of a prompt, in order or in parallel."""
        prompt = json.loads(turn.text)
        self.gate.turn_started()
        calls = [self._call(turn, name, arguments) for name, arguments in prompt["calls"]]
        if prompt.get("together"):
            await asyncio.gather(*calls)
        else:
            for call in calls:
                await call
        await turn.say("done")

    async def _call(self, turn: Turn, name: str, arguments: Any) -> None:
        tool = TOOLS[name]
        call = await tool.prepare(arguments, replace(self.context, files=self.context.files))

        async def report(progress: ToolProgress) -> None:
            pass

        async with turn.tool_call(call.title, kind=tool.kind, name=name) as scope:

            async def ask(options: Any, decision: Decision) -> PermissionAnswer:
                return await scope.ask_permission(options)

            ruling = await self.gate.ruling(tool, call, ask)
            self.rulings.append(ruling)
            if not ruling.allowed:
                self.results.append(ruling.message)
                await scope.fail(ruling.message)
                return
            self.results.append((await call.run(report)).text)


def chosen(options: list[PermissionOption], kind: str) -> PermissionOption:
    """Return the option of this kind."""
    return next(option for option in options if option.kind == kind)


def make_session(folder: Path, *, rules: Any = None, mode: Mode = "ask", **more: Any) -> GateSession:
    """Create a session in `folder/project`, with a second root and an audit log beside it."""
    root = folder / "project"
    for created in (root, folder / "more", folder / "elsewhere", folder / "home" / ".ssh"):
        created.mkdir(parents=True, exist_ok=True)
    sandbox = more.pop("session_sandbox", None) or FakeSandboxStatus()
    clock: Clock = more.pop("clock", SYSTEM_CLOCK)
    audit = more.pop("audit", None) or DecisionLog(folder / "data" / "decisions.jsonl")
    directories = SessionDirectories.of(root, [folder / "more"], home=folder / "home")
    session: GateSession
    gate = PermissionGate(
        policy=Policy(read_permissions({} if rules is None else rules, file="config.toml")),
        directories=directories,
        audit=audit,
        session_id="sess_1",
        mode=lambda: session.mode,
        sandbox=sandbox,
        question_seconds=more.pop("seconds", QUESTION_SECONDS),
        clock=clock,
    )
    context = ToolContext(cwd=str(root), may_show=gate.may_show, clock=clock, **more)
    session = GateSession(root, gate, audit, context, sandbox, mode)
    return session


@asynccontextmanager
async def connected(
    session: GateSession, *, strict: bool = False, capabilities: dict[str, Any] | None = None
) -> AsyncGenerator["Editor"]:
    """Connect a client to an agent that runs the session."""
    options = AgentOptions(clock=session.context.clock, strict=strict)
    async with connected_client(
        make_agent(session.run_turn), options=options, capabilities=capabilities
    ) as client:
        yield Editor(client, await client.new_session(str(session.root)))


@dataclass
class Editor:
    """The client side of a session."""

    client: Client
    session_id: str

    def prompt(self, *calls: tuple[str, dict[str, Any]], together: bool = False) -> Any:
        """Start a turn with these calls."""
        return self.client.prompt(self.session_id, json.dumps({"calls": calls, "together": together}))

    async def asked(self) -> Message:
        """Return the next permission request."""
        return await self.client.asked("session/request_permission")

    def answer(self, question: Message, kind: str, **more: Any) -> None:
        """Choose the option of this kind."""
        option = next(option for option in question["params"]["options"] if option["kind"] == kind)
        self.client.raw.reply(
            question, {"outcome": {"outcome": "selected", "optionId": option["optionId"]}, **more}
        )

    async def end(self, turn: Any) -> Any:
        """Wait for the end of a turn and return its result."""
        return (await self.client.turn_of(turn))[1]
