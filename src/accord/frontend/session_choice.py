"""Which session a run uses (new, named, newest), and the model, mode and options to set in it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, cast

from accord.client.client_session import ClientSession
from accord.client.remote_agent import RemoteAgent
from accord.errors import (
    AuthRequired,
    BadAnswer,
    InvalidParams,
    NotFound,
    NotOffered,
    RpcError,
    StoreError,
    UsageError,
)
from accord.frontend.recording import RecordedSessions
from accord.schema import McpServer, McpServerHttp, McpServerSse, SessionInfo
from accord.session import Picker
from accord.session.session_settings import picker_of_modes

# MERGED client.entering: Which session the turn runs in: a new one, the one that is named, or the newest of the folder.

_MOST_LISTED: Final = 5_000


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """Everything a session is opened with."""

    agent: RemoteAgent
    name: str
    """Under which the agent's sessions are recorded."""
    cwd: str
    add_dir: tuple[str, ...]
    mcp_servers: tuple[McpServer, ...]

    async def new(self) -> ClientSession:
        """A new one."""
        return await self.agent.new_session(
            self.cwd, mcp_servers=self.mcp_servers, additional_directories=self.add_dir
        )

    async def again(self, session_id: str, *, whole: bool = False) -> ClientSession:
        """One that was there before: resumed if the agent can do that, else loaded; the other way round where its history is
        wanted (`whole`). Raises UsageError, RpcError.
        """
        offered = self.agent.capabilities
        ways = [self.agent.load_session] if offered.load_session else []
        if offered.session_capabilities and offered.session_capabilities.resume:
            ways.insert(len(ways) if whole else 0, self.agent.resume_session)
        if not ways:
            raise NotOffered(f"{self.name} can neither resume nor load sessions: begin a new one")
        for number, way in enumerate(ways, 1):
            try:
                return await way(
                    session_id, self.cwd, mcp_servers=self.mcp_servers, additional_directories=self.add_dir
                )
            except AuthRequired:
                raise
            except RpcError as error:
                if number < len(ways):
                    continue
                if isinstance(error, NotFound | InvalidParams):
                    raise UsageError(f"the session {session_id!r} cannot be taken up: {error}") from None
                raise
        raise AssertionError("the last way returns or raises")

    async def newest(self, records: RecordedSessions | None) -> str:
        """The newest session of the folder, as the agent lists it, else as it was recorded here. Raises UsageError."""
        listed = await self._listed()
        if listed is not None:
            return listed.session_id
        try:
            recorded = records.newest(self.cwd, agent=self.name) if records is not None else None
        except StoreError:
            recorded = None
        if recorded is None:
            raise UsageError(
                f"--continue: {self.name} has no session of {self.cwd}: leave it out to begin one"
            )
        return recorded.session_id

    async def _listed(self) -> SessionInfo | None:
        """The newest that the agent lists, as far as it can; a list that breaks off is one, too."""
        sessions = self.agent.capabilities.session_capabilities or None
        newest: SessionInfo | None = None
        if not (sessions and sessions.list):
            return None
        seen = 0
        try:
            async for info in self.agent.list_sessions(cwd=self.cwd):
                if _same(info.cwd, self.cwd) and (newest is None or _time(info) > _time(newest)):
                    newest = info
                seen += 1
                if seen == _MOST_LISTED:
                    break
        except AuthRequired:
            raise
        except (RpcError, BadAnswer):
            pass
        return newest


def reachable(
    servers: list[McpServer], agent: RemoteAgent, note: Callable[[str], None]
) -> tuple[McpServer, ...]:
    """The MCP servers that the agent can take; each of the others is told."""
    reach = agent.capabilities.mcp_capabilities or None
    kept: list[McpServer] = []
    for server in servers:
        if isinstance(server, McpServerHttp) and not (reach and reach.http):
            note(f"the MCP server {server.name!r} is left out: {agent.name} takes none over http")
        elif isinstance(server, McpServerSse) and not (reach and reach.sse):
            note(f"the MCP server {server.name!r} is left out: {agent.name} takes none over sse")
        else:
            kept.append(server)
    return tuple(kept)


def _same(folder: str, other: str) -> bool:
    return os.path.realpath(folder) == os.path.realpath(other)


def _time(info: SessionInfo) -> float:
    """When it was last used; what has no readable time is older than everything else."""
    try:
        moment = datetime.fromisoformat(info.updated_at or "")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


# MERGED client.settings: `--model`, `--mode` and `--set`: set what the agent lists, by id or by name; what it does not list is refused, never dropped.

SET_MODEL: Final = "_agentao.cn/set_model"

_SWITCH: Final = {
    "true": True,
    "on": True,
    "yes": True,
    "1": True,
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}


class RequestedSettings(Protocol):
    """What somebody wants set; None leaves it to the agent."""

    @property
    def mode(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def settings(self) -> tuple[tuple[str, str], ...]: ...


async def apply_settings(given: RequestedSettings, agent: RemoteAgent, session: ClientSession) -> None:
    """Set everything that was asked for. Raises UsageError, also where the agent refuses a value, and AuthRequired."""
    try:
        await _apply(given, agent, session)
    except InvalidParams as error:
        raise UsageError(f"the agent refuses a setting: {error}") from None


async def _apply(given: RequestedSettings, agent: RemoteAgent, session: ClientSession) -> None:
    if given.mode is not None:
        # Modes are there beside config options that do not speak of them, so no picker need stand for them.
        modes = session.state.settings.modes
        if not modes:
            raise UsageError(f"--mode {given.mode}: the agent has no modes")
        picker = picker_of_modes(modes, session.state.settings.current_mode_id)
        await session.set_mode(str(_value(picker, given.mode, "--mode")))
    if given.model is not None:
        await _set_model(given.model, agent, session)
    for key, value in given.settings:
        picker = _find(session, key, key)
        if picker is None:
            listed = ", ".join(repr(picker.id) for picker in session.state.settings.pickers) or "nothing"
            raise UsageError(f"--set {key}={value}: the agent has no option {key!r}; it lists {listed}")
        await session.choose(picker, _value(picker, value, f"--set {key}"))


async def _set_model(model: str, agent: RemoteAgent, session: ClientSession) -> None:
    picker = _find(session, "model", "model")
    try:
        if picker is None:
            raise UsageError(f"--model {model}: the agent lists no models")
        value = _value(picker, model, "--model")
    except UsageError:
        if SET_MODEL not in _words(agent.capabilities.meta or {}):
            raise
        # This agent takes models that it does not list, by a method of its own.
        await agent.request(SET_MODEL, {"sessionId": session.id, "model": model})
        return
    await session.choose(picker, value)


def _find(session: ClientSession, id: str, category: str) -> Picker | None:
    """By id; else by what it is about; else by its name."""
    pickers = session.state.settings.pickers
    return (
        next((picker for picker in pickers if picker.id == id), None)
        or next((picker for picker in pickers if picker.category == category), None)
        or next((picker for picker in pickers if picker.name.casefold() == id.casefold()), None)
    )


def _value(picker: Picker, text: str, option: str) -> str | bool:
    """The listed value that was meant: by its id, else by its name if only one has it."""
    if isinstance(picker.current, bool):
        if text.casefold() not in _SWITCH:
            raise UsageError(f"{option} {text!r}: it is a switch: true or false")
        return _SWITCH[text.casefold()]
    if picker.offers(text):
        return text
    meant = [
        choice.value
        for choice in picker.choices
        if text.casefold() in (choice.value.casefold(), choice.name.casefold())
    ]
    if len(meant) == 1:
        return meant[0]
    listed = ", ".join(choice.value for choice in picker.choices[:20]) or "none"
    more = f" and {len(picker.choices) - 20} more" if len(picker.choices) > 20 else ""
    raise UsageError(f"{option} {text!r}: the agent does not list it; it lists {listed}{more}")


def _words(value: Any, depth: int = 4) -> set[str]:
    """Every text in the agent's `_meta`, where it announces its extensions."""
    if isinstance(value, str):
        return {value}
    if depth == 0:
        return set()
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return {*found, *(word for inner in found.values() for word in _words(inner, depth - 1))}
    if isinstance(value, list):
        return {word for inner in cast("list[Any]", value) for word in _words(inner, depth - 1)}
    return set()
