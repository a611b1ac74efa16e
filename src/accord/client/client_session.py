"""`ClientSession`: prompt it, watch it, change its settings, close it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from msgspec import MsgspecError, Raw, Struct, json, structs

from accord.client import agent_connection
from accord.client.agent_connection import Prompt
from accord.client.client_events import ClientEvent, TerminalViews
from accord.client.event_stream import EventQueue, EventStream
from accord.client.prompt_turn import PromptTurn, TurnResult, turn_result
from accord.errors import BadAnswer, NotOffered, UsageError
from accord.schema import (
    UNSET,
    CloseSessionRequest,
    ConfigOptionUpdate,
    McpServer,
    SessionConfigOption,
    SessionConfigSelect,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    SystemPrompt,
)
from accord.schema.dialects import set_method_of
from accord.schema.methods import SESSION_REWIND, SESSION_REWIND_POINTS, SESSION_STEERING
from accord.session import MessageChanged, ModeChanged, Picker, SessionState
from accord.session.rewind import RewindPoints, RewindResult, RewindScope
from accord.session.session_settings import picker_of_option
from accord.workspace.roots import Roots

if TYPE_CHECKING:
    from accord.client.remote_agent import RemoteAgent
    from accord.client.session_core import SessionCore


T = TypeVar("T")


class ClientSession:
    """One session of an agent. `RemoteAgent` opens it; a child session is announced by its parent."""

    def __init__(self, core: "SessionCore") -> None:
        self._core = core
        self.id: str = core.id
        self.state: SessionState = core.state
        """The conversation and the settings, always current."""
        self.terminals: TerminalViews = core.terminals
        """The output of the commands that run for the agent."""

    def __repr__(self) -> str:
        return f"ClientSession({self.id!r}, cwd={self.cwd!r})"

    @property
    def agent(self) -> "RemoteAgent":
        """The agent that runs the session."""
        return self._core.handle.agent

    @property
    def cwd(self) -> str:
        """The working directory, absolute."""
        return self._core.setup.cwd

    @property
    def additional_directories(self) -> tuple[str, ...]:
        """The further directories of the session, absolute."""
        return self._core.setup.additional_directories

    @property
    def mcp_servers(self) -> tuple[McpServer, ...]:
        """The MCP servers that the session was opened with."""
        return self._core.setup.mcp_servers

    @property
    def system_prompt(self) -> SystemPrompt | None:
        """Unstable. The system prompt that the session was opened with."""
        return self._core.setup.system_prompt

    @property
    def roots(self) -> Roots:
        """The directories that bound what the agent may read, write and run in this session."""
        return self._core.roots

    @property
    def parent(self) -> "ClientSession | None":
        """Unstable. The session that announced this child session.

        A child session can be watched, and canceled if it allows that.
        """
        parent = self._core.parent
        return None if parent is None else parent.session

    @property
    def children(self) -> "list[ClientSession]":
        """Unstable. The child sessions that this session announced."""
        return [child.session for child in self._core.children]

    @property
    def running(self) -> bool:
        """Whether a turn runs. A canceled turn runs until the agent has responded."""
        return self._core.turn is not None

    @property
    def turn_number(self) -> int | None:
        """The number of the running turn, for a child session that of its parent.

        None if no turn runs or it was canceled.
        """
        return self._core.turn_number

    @property
    def replaying(self) -> bool:
        """Whether `load_session` is still replaying the history."""
        return self._core.replaying

    @property
    def closed(self) -> bool:
        """Whether the session was closed, deleted or lost, or the agent was closed."""
        return self._core.closed

    @property
    def lost(self) -> str | None:
        """Why the session could not be reopened after a restart of the agent; None if it was not lost."""
        return self._core.lost_reason

    # -- turns -----------------------------------------------------------------------------------------------

    def prompt(self, prompt: Prompt) -> EventStream[ClientEvent]:
        """Run a turn and iterate over its events, in order, from `TurnStarted` to `TurnEnded`.

        If the turn fails, the error is raised after the last event. Leaving the iteration cancels the turn.
        """
        core = self._core
        blocks = core.prepare_prompt(prompt)
        turns: list[PromptTurn] = []

        async def start() -> EventQueue[ClientEvent]:
            queue = core.listeners.open_queue
            turns.append(turn := await core.start_turn(blocks, queue))
            assert turn.queue is not None, "the turn was started with a queue"
            return turn.queue

        def leave() -> None:
            for turn in turns:
                turn.leave()

        return EventStream(None, leave, start=start, error=lambda: turns[0].error)

    async def ask(self, prompt: Prompt) -> TurnResult:
        """Run a turn and return the agent's answer."""
        turn = await self._core.start_turn(self._core.prepare_prompt(prompt))
        try:
            await turn.wait()
        finally:
            turn.leave()
        if turn.error is not None:
            raise turn.error
        assert turn.ended is not None, "the turn has ended"
        return turn_result(self.state, turn.ended)

    async def steer(self, message: Prompt) -> bool:
        """Send a message to the running turn. The model sees it at its next step.

        Returns False if no turn was running: then nothing was kept, and you can `prompt` instead. Raises
        NotOffered if the agent takes no messages during a turn (`RemoteAgent.can_steer`).
        """
        core = self._core
        core.check_usable()
        connection = await core.handle.ready()
        if not connection.can_steer:
            raise NotOffered(f"{SESSION_STEERING}: the agent takes no messages during a turn")
        blocks = core.message_blocks(message)
        # The agent must not start a turn of its own, whose end no response would tell.
        options = {"steering": {"idleBehavior": "promptRequired"}}
        params = {"sessionId": self.id, "prompt": blocks, "_meta": options}
        answer = await connection.call(SESSION_STEERING, params, read=_steering_outcome, key=self.id)
        if answer == "promptRequired":
            return False
        if answer not in ("injected", "startedNewTurn"):
            raise BadAnswer(f"{SESSION_STEERING}: the agent did not take the message ({answer})")
        core.publish(MessageChanged("user", f"steering-{uuid4().hex}", blocks))
        return True

    async def rewind_points(self) -> RewindPoints:
        """The messages that the session can go back to. Raises NotOffered (`RemoteAgent.can_rewind`)."""
        return await self._rewind_call(SESSION_REWIND_POINTS, {}, RewindPoints)

    async def rewind(
        self,
        message_id: str | None,
        scope: RewindScope = "both",
        *,
        dry_run: bool = False,
        force: bool = False,
    ) -> RewindResult:
        """Go back to before a message, with the conversation, the files or both; None takes the last rewind
        back.

        With `dry_run`, only say what would happen. With `force`, overwrite files that others have changed.
        Raises NotOffered if the agent cannot do it (`RemoteAgent.can_rewind`).
        """
        target: dict[str, object] = {"redo": True}
        if message_id is not None:
            target = {"messageId": message_id, "scope": scope}
        options = {"dryRun": dry_run, "force": force}
        return await self._rewind_call(SESSION_REWIND, {**target, **options}, RewindResult)

    async def _rewind_call(self, method: str, members: dict[str, object], kind: type[T]) -> T:
        core = self._core
        core.check_usable()
        connection = await core.handle.ready()
        if not connection.can_rewind:
            raise NotOffered(f"{method}: the agent cannot go back to earlier messages")

        def read(result: Raw) -> T:
            try:
                return json.decode(result, type=kind)
            except MsgspecError as error:
                raise BadAnswer(f"{method}: the result cannot be read: {error}") from None

        return await connection.call(method, {"sessionId": self.id, **members}, read=read, key=self.id)

    def cancel(self) -> None:
        """Ask the agent to stop, and cancel its open permission requests.

        The turn continues until the agent has responded.
        """
        self._core.cancel()

    async def cancel_tool_call(self, tool_call_id: str) -> None:
        """Ask the agent to stop one tool call, which must be `cancellable`. Its end comes as an event."""
        call = self.state.tool_calls.get(tool_call_id)
        if call is None or not call.cancellable:
            raise NotOffered(f"the tool call {tool_call_id!r} cannot be canceled alone; cancel the turn")
        await self._core.cancel_item("tool_call/cancel", "toolCallId", tool_call_id)

    async def cancel_terminal(self, terminal_id: str) -> None:
        """Ask the agent to stop the command of one of its terminals, which must be `cancellable`."""
        terminal = self.state.terminals.get(terminal_id)
        if terminal is None or not terminal.cancellable:
            raise NotOffered(f"the terminal {terminal_id!r} cannot be canceled alone; cancel the turn")
        await self._core.cancel_item("terminal/cancel", "terminalId", terminal_id)

    def events(self) -> EventStream[ClientEvent]:
        """Iterate over every event from now on, in turns and between them, until the session is closed."""
        return self._core.listeners.stream()

    # -- settings --------------------------------------------------------------------------------------------

    async def choose(self, picker: Picker, value: str | bool) -> None:
        """Set a picker of `state.settings.pickers`: an option, the mode, or a legacy model."""
        if picker.source == "modes":
            await self.set_mode(str(value))
        else:
            await self.set_config_option(picker.id, value)

    async def set_mode(self, mode_id: str) -> None:
        """Set a mode that the agent listed.

        Uses the config option for modes if the agent has one, otherwise `session/set_mode`.
        """
        settings = self.state.settings
        listed = [mode.id for mode in settings.modes]
        if mode_id not in listed:
            raise UsageError(f"there is no mode {mode_id!r}; the agent lists {_quoted(listed)}")
        for option in settings.config_options:
            if isinstance(option, SessionConfigSelect) and option.category == "mode":
                await self.set_config_option(option.id, mode_id)
                return
        self._core.check_usable()
        connection = await self._core.handle.ready()
        await connection.call("session/set_mode", SetSessionModeRequest(self.id, mode_id), key=self.id)
        self._core.publish(ModeChanged(mode_id))

    async def set_config_option(self, config_id: str, value: str | bool) -> None:
        """Set an option that the agent listed to a value that it listed; a switch takes True or False.

        Uses `session/set_model` for the model list of agents that predate config options.
        """
        options = self.state.settings.config_options
        option = next((option for option in options if option.id == config_id), None)
        if option is None:
            listed = _quoted(option.id for option in options)
            raise UsageError(f"there is no option {config_id!r}; the agent lists {listed}")
        picker = picker_of_option(option)
        if not picker.offers(value):
            is_switch = isinstance(picker.current, bool)
            listed = "True or False" if is_switch else _quoted(choice.value for choice in picker.choices)
            raise UsageError(f"the option {config_id!r} cannot be set to {value!r}; the agent lists {listed}")
        self._core.check_usable()
        if set_method_of(option):
            await self._set_model(option, value)
            return
        connection = await self._core.handle.ready()
        response: SetSessionConfigOptionResponse = await connection.call(
            "session/set_config_option",
            SetSessionConfigOptionRequest(
                self.id, config_id, value, "boolean" if isinstance(value, bool) else UNSET
            ),
            key=self.id,
        )
        # An agent that answers without the list sends an update later.
        if response.config_options:
            self._core.publish(ConfigOptionUpdate(response.config_options))

    async def _set_model(self, option: SessionConfigOption, value: str | bool) -> None:
        connection = await self._core.handle.ready()
        params = {"sessionId": self.id, "modelId": value}
        await connection.call("session/set_model", params, read=_ignore_result, key=self.id)
        # Such an agent never lists its models again, so the client updates the list itself.
        changed = structs.replace(option, current_value=value)
        options = self.state.settings.config_options
        self._core.publish(
            ConfigOptionUpdate([changed if other.id == option.id else other for other in options])
        )

    # -- the end ---------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the session at the agent: cancels what runs. The agent keeps the history."""
        core = self._core
        core.check_usable()
        connection = await core.handle.ready()
        agent_connection.require_method("session/close", connection.capabilities)
        core.stop_requests()
        await connection.call("session/close", CloseSessionRequest(self.id), key=self.id)
        await core.end("the session was closed")


def _ignore_result(_result: Raw) -> None:
    return None


class _SteeringResult(Struct):
    outcome: str


def _steering_outcome(result: Raw) -> str:
    try:
        return json.decode(result, type=_SteeringResult).outcome
    except MsgspecError as error:
        raise BadAnswer(f"{SESSION_STEERING}: the result cannot be read: {error}") from None


def _quoted(ids: Iterable[str]) -> str:
    return ", ".join(repr(id) for id in ids) or "none"
