"""Which session a run uses (new, named, newest), and the model, mode and options to set in it.

Settings are matched by id or by name. A setting that the agent does not list is refused, never ignored.
"""

import os
from collections.abc import Callable
from contextlib import suppress
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
from accord.safe_text import clean_line, one_line
from accord.schema import McpServer, McpServerHttp, McpServerSse, SessionInfo
from accord.schema.methods import AGENTAO_SET_MODEL
from accord.session import Picker, PickerChoice
from accord.session.session_settings import picker_of_modes

_MAX_LISTED: Final = 5_000


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """Opens the session of a run."""

    agent: RemoteAgent
    name: str
    """The name under which the agent's sessions are recorded."""
    cwd: str
    add_dir: tuple[str, ...]
    mcp_servers: tuple[McpServer, ...]

    async def new(self) -> ClientSession:
        """Open a new session."""
        return await self.agent.new_session(
            self.cwd, mcp_servers=self.mcp_servers, additional_directories=self.add_dir
        )

    async def reopen(self, session_id: str, *, with_history: bool = False) -> ClientSession:
        """Open a stored session: resume it if the agent supports that, otherwise load it.

        With `with_history`, loading comes first. Raises UsageError or RpcError.
        """
        capabilities = self.agent.capabilities
        methods = [self.agent.load_session] if capabilities.load_session else []
        if capabilities.session_capabilities and capabilities.session_capabilities.resume:
            methods.insert(len(methods) if with_history else 0, self.agent.resume_session)
        if not methods:
            raise NotOffered(f"{self.name} can neither resume nor load sessions; start a new one")
        for number, open_session in enumerate(methods, 1):
            try:
                return await open_session(
                    session_id, self.cwd, mcp_servers=self.mcp_servers, additional_directories=self.add_dir
                )
            except AuthRequired:
                raise
            except RpcError as error:
                if number < len(methods):
                    continue
                if isinstance(error, NotFound | InvalidParams):
                    raise UsageError(
                        f"cannot open session {session_id!r} ({_reason(error)}); "
                        "run `accord sessions list` to see the sessions of this folder"
                    ) from None
                raise
        raise AssertionError("the last method returns or raises")

    async def newest(self, records: RecordedSessions | None) -> str:
        """The id of the newest session in the directory: from the agent, otherwise from the recordings.

        An agent may list its sessions without times. Raises UsageError if there is none.
        """
        listed = await self._listed()
        newest = max(listed, key=_last_used, default=None)
        if newest is not None and _last_used(newest):
            return newest.session_id
        try:
            recorded = records.newest(self.cwd, agent=self.name) if records is not None else None
        except StoreError:
            recorded = None
        if newest is not None and not (
            recorded and recorded.session_id in {one.session_id for one in listed}
        ):
            return newest.session_id
        if recorded is None:
            raise UsageError(
                f"--continue: {self.name} has no session in {self.cwd}; omit --continue to start one"
            )
        return recorded.session_id

    async def _listed(self) -> list[SessionInfo]:
        """The sessions that the agent lists in the directory; what it got if the list fails."""
        sessions = self.agent.capabilities.session_capabilities or None
        listed: list[SessionInfo] = []
        if not (sessions and sessions.list):
            return listed
        count = 0
        try:
            async for info in self.agent.list_sessions(cwd=self.cwd):
                if same_directory(info.cwd, self.cwd):
                    listed.append(info)
                count += 1
                if count == _MAX_LISTED:
                    break
        except AuthRequired:
            raise
        except (RpcError, BadAnswer):
            pass
        return listed


def supported_servers(
    servers: list[McpServer], agent: RemoteAgent, note: Callable[[str], None]
) -> tuple[McpServer, ...]:
    """The MCP servers that the agent supports; `note` is called for each of the others."""
    supported = agent.capabilities.mcp_capabilities or None
    result: list[McpServer] = []
    for server in servers:
        if isinstance(server, McpServerHttp) and not (supported and supported.http):
            note(f"the MCP server {server.name!r} is left out: {agent.name} does not support http")
        elif isinstance(server, McpServerSse) and not (supported and supported.sse):
            note(f"the MCP server {server.name!r} is left out: {agent.name} does not support sse")
        else:
            result.append(server)
    return tuple(result)


def _reason(error: RpcError) -> str:
    """The message of an error, with its data if that is a text."""
    return f"{error.message}: {error.data}" if isinstance(error.data, str) else error.message


def same_directory(one: str, other: str) -> bool:
    """Whether two paths name the same folder. An agent may name one that cannot exist."""
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:
        return one == other


def _last_used(info: SessionInfo) -> float:
    """The time of the last use; 0 if there is no readable time."""
    try:
        moment = datetime.fromisoformat(info.updated_at or "")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


# -- settings ------------------------------------------------------------------------------------------------


_SWITCH_VALUES: Final = {
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
    """The settings that the user requested; None leaves a setting to the agent."""

    @property
    def mode(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def settings(self) -> tuple[tuple[str, str], ...]: ...


async def apply_settings(requested: RequestedSettings, agent: RemoteAgent, session: ClientSession) -> None:
    """Apply all requested settings. Raises UsageError, also if the agent refuses a value, or AuthRequired."""
    try:
        await _apply(requested, agent, session)
    except InvalidParams as error:
        raise UsageError(f"the agent refused a setting: {error}") from None


async def _apply(requested: RequestedSettings, agent: RemoteAgent, session: ClientSession) -> None:
    if requested.mode is not None:
        # Modes can exist beside config options, so there may be no picker for them.
        modes = session.state.settings.modes
        if not modes:
            raise UsageError(f"--mode {requested.mode}: the agent has no modes")
        picker = picker_of_modes(modes, session.state.settings.current_mode_id)
        await session.set_mode(str(_picker_value(picker, requested.mode, "--mode")))
    if requested.model is not None:
        await _set_model(requested.model, agent, session)
    for key, value in requested.settings:
        picker = _find_picker(session, key, key)
        if picker is None:
            listed = ", ".join(repr(picker.id) for picker in session.state.settings.pickers) or "nothing"
            raise UsageError(f"--set {key}={value}: the agent has no option {key!r}; it lists {listed}")
        await session.choose(picker, _picker_value(picker, value, f"--set {key}"))


async def copy_settings(source: ClientSession, target: ClientSession) -> None:
    """Choose the same model, mode and options in another session, as far as the agent allows it."""
    current = {picker.id: picker.current for picker in source.state.settings.pickers}
    for picker in list(target.state.settings.pickers):
        value = current.get(picker.id)
        if value is not None and value != picker.current:
            with suppress(RpcError):
                await target.choose(picker, value)


async def _set_model(model: str, agent: RemoteAgent, session: ClientSession) -> None:
    picker = _find_picker(session, "model", "model")
    try:
        if picker is None:
            raise UsageError(f"--model {model}: the agent lists no models")
        value = _picker_value(picker, model, "--model")
    except UsageError:
        if AGENTAO_SET_MODEL not in _strings(agent.capabilities.meta or {}):
            raise
        # This agent accepts unlisted models through its own method.
        await agent.request(AGENTAO_SET_MODEL, {"sessionId": session.id, "model": model})
        return
    await session.choose(picker, value)


def _find_picker(session: ClientSession, id: str, category: str) -> Picker | None:
    """Find a picker by id, then by category, then by name."""
    pickers = session.state.settings.pickers
    return (
        next((picker for picker in pickers if picker.id == id), None)
        or next((picker for picker in pickers if picker.category == category), None)
        or next((picker for picker in pickers if picker.name.casefold() == id.casefold()), None)
    )


def _picker_value(picker: Picker, text: str, option: str) -> str | bool:
    """The listed value with this id, or with this name if it is unique."""
    if isinstance(picker.current, bool):
        if text.casefold() not in _SWITCH_VALUES:
            raise UsageError(f"{option} {text!r}: the option is a switch; use true or false")
        return _SWITCH_VALUES[text.casefold()]
    if picker.offers(text):
        return text
    matches = [
        choice.value
        for choice in picker.choices
        if text.casefold() in (choice.value.casefold(), choice.name.casefold())
    ]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(map(_choice_text, picker.choices[:20])) or "none"
    more = f" and {len(picker.choices) - 20} more" if len(picker.choices) > 20 else ""
    raise UsageError(f"{option} {text!r}: the agent does not list it; it lists {listed}{more}")


def _choice_text(choice: PickerChoice) -> str:
    """A choice for a message: its value, and its name if that is different."""
    value, name = one_line(choice.value), one_line(clean_line(choice.name))
    return value if not name or name.casefold() == value.casefold() else f"{value} ({name})"


def _strings(value: Any, depth: int = 4) -> set[str]:
    """All strings in the agent's `_meta`, where it announces its extensions."""
    if isinstance(value, str):
        return {value}
    if depth == 0:
        return set()
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return {*found, *(word for inner in found.values() for word in _strings(inner, depth - 1))}
    if isinstance(value, list):
        return {word for inner in cast("list[Any]", value) for word in _strings(inner, depth - 1)}
    return set()
