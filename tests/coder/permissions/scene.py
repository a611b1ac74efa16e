"""A session with a gate: real tools in a project on disk, an agent of this library, and a client spoken by hand.

The agent is a loop in small: what the prompt holds as JSON are the calls of one model answer. Those that only read run
side by side, as do all of a prompt that says `together`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.agent.scene import Client, agent_that, talk

from accord.agent import AgentOptions, PermissionAnswer, Turn
from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.permissions.gate import Gate
from accord.coder.permissions.ruling import Ruling
from accord.coder.permissions.settings import PATIENCE
from accord.coder.tools import built_in_tools
from accord.coder.tools.context import ToolContext
from accord.coder.tools.tool import Call, Progress, Tool
from accord.policy import Audit, Bounds, Decision, Mode, Policy, read_permissions
from accord.schema import PermissionOption
from accord.testing.wire import Message

TOOLS = built_in_tools()
ALLOW, ALWAYS, REJECT, NEVER = "allow_once", "allow_always", "reject_once", "reject_always"


@dataclass
class Walls:
    """What a test says about the sandbox."""

    holds: bool = False
    missing: str = ""


@dataclass
class Session:
    """One session's permissions, and what came of its calls."""

    root: Path
    gate: Gate
    audit: Audit
    context: ToolContext
    walls: Any
    mode: Mode = "ask"
    rulings: list[Ruling] = field(default_factory=list[Ruling])
    results: list[str] = field(default_factory=list[str])

    async def ruling(self, tool: str, answer: Any = None, /, **arguments: Any) -> Ruling:
        """Rule on a call without a client; a question gets this answer, or fails the test."""
        call = await TOOLS[tool].prepare(arguments, self.context)
        return await self.rule(TOOLS[tool], call, answer)

    async def rule(self, tool: Tool, call: Call, answer: Any = None) -> Ruling:
        """The same for a call that is ready."""

        async def ask(options: Any, decision: Decision, seconds: float | None) -> PermissionAnswer:
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

    async def asks(self, tool: str, **arguments: Any) -> Decision:
        """Why a call is asked about; it is rejected."""
        asked: list[Decision] = []

        def no(options: Any, decision: Decision) -> PermissionAnswer:
            asked.append(decision)
            return PermissionAnswer(chosen(options, REJECT), "selected")

        assert not (await self.ruling(tool, no, **arguments)).allowed
        return asked[0]

    def written(self) -> list[dict[str, Any]]:
        """The audit."""
        return [json.loads(line) for line in self.audit.path.read_text().splitlines()]

    async def play(self, turn: Turn) -> None:
        """Answer a prompt: its calls, in order or together."""
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

        async def report(progress: Progress) -> None:
            pass

        async with turn.tool_call(call.title, kind=tool.kind, name=name) as scope:

            async def ask(options: Any, decision: Decision, seconds: float | None) -> PermissionAnswer:
                return await scope.ask_permission(options, timeout=seconds)

            ruling = await self.gate.ruling(tool, call, ask)
            self.rulings.append(ruling)
            if not ruling.allowed:
                self.results.append(ruling.told)
                await scope.fail(ruling.told)
                return
            self.results.append((await call.run(report)).text)


def chosen(options: list[PermissionOption], kind: str) -> PermissionOption:
    """The option of this kind."""
    return next(option for option in options if option.kind == kind)


def make_session(folder: Path, *, rules: Any = None, mode: Mode = "ask", **more: Any) -> Session:
    """A session in `folder/project`, with another folder as its second root, and an audit beside them."""
    root = folder / "project"
    for made in (root, folder / "more", folder / "elsewhere", folder / "home" / ".ssh"):
        made.mkdir(parents=True, exist_ok=True)
    walls = more.pop("walls", None) or Walls()
    clock: Clock = more.pop("clock", SYSTEM_CLOCK)
    audit = more.pop("audit", None) or Audit(folder / "data" / "decisions.jsonl")
    bounds = Bounds.of(root, [folder / "more"], home=folder / "home")
    session: Session
    gate = Gate(
        policy=Policy(read_permissions({} if rules is None else rules, file="config.toml")),
        bounds=bounds,
        audit=audit,
        session_id="sess_1",
        mode=lambda: session.mode,
        confinement=walls,
        seconds=more.pop("seconds", PATIENCE),
        clock=clock,
    )
    context = ToolContext(cwd=str(root), may_show=gate.may_show, clock=clock, **more)
    session = Session(root, gate, audit, context, walls, mode)
    return session


@asynccontextmanager
async def served(
    session: Session, *, strict: bool = False, capabilities: dict[str, Any] | None = None
) -> AsyncGenerator["Editor"]:
    """The session behind an agent, and a client that drives it."""
    options = AgentOptions(clock=session.context.clock, strict=strict)
    async with talk(agent_that(session.play), options=options, capabilities=capabilities) as client:
        yield Editor(client, await client.new_session(str(session.root)))


@dataclass
class Editor:
    """The client."""

    client: Client
    session_id: str

    def prompt(self, *calls: tuple[str, dict[str, Any]], together: bool = False) -> Any:
        """Begin a turn with these calls."""
        return self.client.prompt(self.session_id, json.dumps({"calls": calls, "together": together}))

    async def asked(self) -> Message:
        """The next question for a permission."""
        return await self.client.asked("session/request_permission")

    def answer(self, asked: Message, kind: str, **more: Any) -> None:
        """Choose the option of this kind."""
        option = next(option for option in asked["params"]["options"] if option["kind"] == kind)
        self.client.raw.reply(
            asked, {"outcome": {"outcome": "selected", "optionId": option["optionId"]}, **more}
        )

    async def end(self, turn: Any) -> Any:
        """The end of a turn: its result."""
        return (await self.client.turn_of(turn))[1]
