"""Which session the turn runs in: a new one, the one that is named, or the newest of the folder."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from accord.client.recording import Records
from accord.client.remote import RemoteAgent
from accord.client.session import ClientSession
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
from accord.schema import McpServer, McpServerHttp, McpServerSse, SessionInfo

_MOST_LISTED: Final = 5_000


@dataclass(frozen=True, slots=True)
class Opening:
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

    async def newest(self, records: Records | None) -> str:
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
