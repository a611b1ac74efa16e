"""A client that answers as a script says and keeps what it saw, for testing agents: accord apps, or any command line."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accord.agent import Agent
from accord.client import (
    ClientEvent,
    ClientHandlers,
    ClientOptions,
    ClientSession,
    PermissionRequest,
    RemoteAgent,
    connect_transport,
    local_workspace,
)
from accord.client.handlers import WorkspaceMaker
from accord.errors import UsageError
from accord.schema import PermissionOption
from accord.session import ToolCallState, TurnEnded
from accord.testing.raw_peer import RecordingTransport, WireLog
from accord.wire.memory_transport import memory_pair
from accord.wire.process import spawn
from accord.wire.transport import Transport


@dataclass(slots=True)
class SeenTurn:
    """One turn as the client saw it."""

    events: list[ClientEvent] = field(default_factory=list[ClientEvent])
    permissions: list[PermissionRequest] = field(default_factory=list[PermissionRequest])
    tool_calls: list[ToolCallState] = field(default_factory=list[ToolCallState])
    text: str = ""
    stop_reason: str | None = None


class ScriptedClient:
    """Connected to one agent. `permissions` are the answers to its questions, in order; then everything is refused."""

    def __init__(
        self,
        *,
        permissions: Sequence[str | None] = (),
        workspace: WorkspaceMaker | None = local_workspace,
        handlers: ClientHandlers | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        self.wire = WireLog()
        self.asked: list[PermissionRequest] = []
        self.misfits: list[str] = []
        """Scripted answers that could not be given."""
        self.session: ClientSession | None = None
        self._answers = list(permissions)
        self._handlers = handlers or ClientHandlers(permissions=self._answer, workspace=workspace)
        self._options = options
        self._stack = AsyncExitStack()

    async def connect(self, agent: Agent | str, *arguments: str) -> "ScriptedClient":
        """Connect to an accord app in memory, or start a program."""
        if isinstance(agent, Agent):
            ours, theirs = memory_pair()
            served = agent.connect(theirs)
            self._stack.push_async_callback(served.aclose)
            transport: Transport = ours
        else:
            transport = await spawn([agent, *arguments])
        tap = RecordingTransport(transport, ours="client", log=self.wire)
        connected = connect_transport(tap, handlers=self._handlers, options=self._options)
        self.agent: RemoteAgent = await self._stack.enter_async_context(connected)
        return self

    async def prompt(self, text: Any, *, cwd: str | Path | None = None) -> SeenTurn:
        """Prompt, in a session that is opened with the first call, and return all of the turn."""
        if self.session is None:
            self.session = await self.agent.new_session(str(cwd if cwd is not None else Path.cwd()))
        elif cwd is not None:
            raise UsageError(
                "the session has its folder already; open another with `client.agent.new_session`"
            )
        seen = SeenTurn()
        before = len(self.asked)
        known = set(self.session.state.tool_calls)
        async for event in self.session.prompt(text):
            seen.events.append(event)
            if isinstance(event, TurnEnded):
                seen.stop_reason = event.raw_reason
        seen.permissions = self.asked[before:]
        seen.tool_calls = [call for id, call in self.session.state.tool_calls.items() if id not in known]
        seen.text = "".join(
            update["content"].get("text", "") for update in self.wire.updates("agent_message_chunk")
        )
        return seen

    async def aclose(self) -> None:
        """Hang up."""
        await self._stack.aclose()

    def _answer(self, request: PermissionRequest) -> PermissionOption | str | None:
        self.asked.append(request)
        scripted = bool(self._answers)
        wanted = self._answers.pop(0) if scripted else "reject_once"
        fits = [option for option in request.options if wanted in (option.option_id, option.kind)]
        if not fits and wanted is not None and scripted:
            offered = ", ".join(f"{option.option_id} ({option.kind})" for option in request.options)
            self.misfits.append(f"the answer {wanted!r} is none of those offered: {offered}")
        return fits[0] if fits else None


@asynccontextmanager
async def scripted_client(
    agent: Agent | str, *arguments: str, **script: Any
) -> AsyncGenerator[ScriptedClient]:
    """A `ScriptedClient` of this agent. When the block ends well, everything the agent sent must have been valid."""
    client = ScriptedClient(**script)
    try:
        yield await client.connect(agent, *arguments)
    finally:
        await client.aclose()
    if client.misfits:
        raise UsageError(client.misfits[0])
    client.wire.assert_valid("agent")
