"""A client with scripted permission answers that records turns, for testing agents."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

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
class RecordedTurn:
    """One turn as the client received it."""

    events: list[ClientEvent] = field(default_factory=list[ClientEvent])
    permissions: list[PermissionRequest] = field(default_factory=list[PermissionRequest])
    tool_calls: list[ToolCallState] = field(default_factory=list[ToolCallState])
    text: str = ""
    stop_reason: str | None = None


class ScriptedClient:
    """A client of one agent.

    `permissions` are the answers to its permission requests in order: the id or kind of an option, or None
    for `cancelled`. Requests after the last answer get `reject_once`, or `cancelled` if it is not offered.
    `handlers` replace `permissions` and `workspace`; do not pass both.
    """

    def __init__(
        self,
        *,
        permissions: Sequence[str | None] = (),
        workspace: WorkspaceMaker | UnsetType | None = UNSET,
        handlers: ClientHandlers | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        self.wire: WireLog = WireLog()
        """The messages of both sides."""
        self.permission_requests: list[PermissionRequest] = []
        self.unmatched_answers: list[str] = []
        """Scripted answers that matched no offered option."""
        self.session: ClientSession | None = None
        self._scripted_answers = list(permissions)
        if handlers is not None and (permissions or workspace is not UNSET):
            raise UsageError("`handlers` replace `permissions` and `workspace`; pass one or the other")
        self._handlers = handlers or ClientHandlers(
            permissions=self._choose_option, workspace=local_workspace if workspace is UNSET else workspace
        )
        self._options = options
        self._agent: RemoteAgent | None = None
        self._stack = AsyncExitStack()

    async def connect(self, agent: Agent | str, *arguments: str) -> "ScriptedClient":
        """Connect to an `Agent` in memory, or start a program."""
        if isinstance(agent, Agent):
            ours, theirs = memory_pair()
            served = agent.connect(theirs)
            self._stack.push_async_callback(served.aclose)
            transport: Transport = ours
        else:
            transport = await spawn([agent, *arguments])
        recording = RecordingTransport(transport, side="client", log=self.wire)
        connected = connect_transport(recording, handlers=self._handlers, options=self._options)
        self._agent = await self._stack.enter_async_context(connected)
        return self

    @property
    def agent(self) -> RemoteAgent:
        """The connected agent. Raises UsageError before `connect`."""
        if self._agent is None:
            raise UsageError("the client is not connected; call `connect` first")
        return self._agent

    async def prompt(self, prompt: Any, *, cwd: str | Path | None = None) -> RecordedTurn:
        """Send a prompt and return its turn. The first call opens the session."""
        if self.session is None:
            self.session = await self.agent.new_session(str(cwd if cwd is not None else Path.cwd()))
        elif cwd is not None:
            raise UsageError(
                "the session already has a folder; open another session with `client.agent.new_session`"
            )
        recorded = RecordedTurn()
        earlier_requests = len(self.permission_requests)
        earlier_calls = set(self.session.state.tool_calls)
        earlier_chunks = len(self._message_chunks(self.session.id))
        async for event in self.session.prompt(prompt):
            recorded.events.append(event)
            if isinstance(event, TurnEnded):
                recorded.stop_reason = event.raw_reason
        recorded.permissions = self.permission_requests[earlier_requests:]
        recorded.tool_calls = [
            call for id, call in self.session.state.tool_calls.items() if id not in earlier_calls
        ]
        recorded.text = "".join(self._message_chunks(self.session.id)[earlier_chunks:])
        return recorded

    def _message_chunks(self, session_id: str) -> list[str]:
        """Return the texts of the agent's messages in the session so far."""
        return [
            params["update"]["content"].get("text", "")
            for params in self.wire.calls("session/update")
            if params["sessionId"] == session_id
            and params["update"]["sessionUpdate"] == "agent_message_chunk"
        ]

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stack.aclose()

    def _choose_option(self, request: PermissionRequest) -> PermissionOption | None:
        self.permission_requests.append(request)
        scripted = bool(self._scripted_answers)
        wanted = self._scripted_answers.pop(0) if scripted else "reject_once"
        matches = [option for option in request.options if wanted in (option.option_id, option.kind)]
        if not matches and wanted is not None and scripted:
            offered = ", ".join(f"{option.option_id} ({option.kind})" for option in request.options)
            self.unmatched_answers.append(
                f"the answer {wanted!r} matches none of the offered options: {offered}"
            )
        return matches[0] if matches else None


@asynccontextmanager
async def scripted_client(
    agent: Agent | str, *arguments: str, **script: Any
) -> AsyncGenerator[ScriptedClient]:
    """A `ScriptedClient` of this agent.

    The end of the block raises `WireFault` if a message of the agent was invalid, and `UsageError` if a
    scripted answer matched no option.
    """
    client = ScriptedClient(**script)
    try:
        yield await client.connect(agent, *arguments)
    finally:
        await client.aclose()
    if client.unmatched_answers:
        raise UsageError(client.unmatched_answers[0])
    client.wire.assert_valid("agent")
