"""What a session is opened with. It is kept, because load, resume and a restart have to say all of it again."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from accord.client import gates
from accord.errors import UsageError
from accord.schema import (
    UNSET,
    AgentCapabilities,
    ForkSessionRequest,
    LoadSessionRequest,
    McpServer,
    NewSessionRequest,
    ResumeSessionRequest,
    SystemPrompt,
    UnsetType,
)

AnyPath: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class SessionSetup:
    """Folders, MCP servers and instructions of one session. Relative folders count from our own."""

    cwd: str
    additional_directories: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    system_prompt: SystemPrompt | None = None
    """Unstable."""

    @staticmethod
    def of(
        cwd: AnyPath,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[AnyPath] = (),
        system_prompt: SystemPrompt | None = None,
    ) -> "SessionSetup":
        """From what a caller passes."""
        if isinstance(additional_directories, str):
            raise UsageError("additional_directories is a list of folders, not one folder")
        extra = tuple(_absolute(folder) for folder in additional_directories)
        return SessionSetup(_absolute(cwd), extra, tuple(mcp_servers), system_prompt)

    def check(self, capabilities: AgentCapabilities) -> None:
        """Refuse what the agent does not take."""
        gates.require_servers(self.mcp_servers, capabilities)
        gates.require_roots(self.additional_directories, capabilities)
        gates.require_system_prompt(self.system_prompt, capabilities)

    def new(self) -> NewSessionRequest:
        """The parameters of `session/new`."""
        return NewSessionRequest(self.cwd, list(self.mcp_servers), self._roots, self.system_prompt or UNSET)

    def load(self, session_id: str) -> LoadSessionRequest:
        """The parameters of `session/load`."""
        return LoadSessionRequest(
            session_id, self.cwd, list(self.mcp_servers), self._roots, self.system_prompt or UNSET
        )

    def resume(self, session_id: str) -> ResumeSessionRequest:
        """The parameters of `session/resume`."""
        return ResumeSessionRequest(
            session_id, self.cwd, list(self.mcp_servers), self._roots, self.system_prompt or UNSET
        )

    def fork(self, session_id: str) -> ForkSessionRequest:
        """The parameters of `session/fork`."""
        return ForkSessionRequest(
            session_id, self.cwd, list(self.mcp_servers), self._roots, self.system_prompt or UNSET
        )

    @property
    def _roots(self) -> list[str] | UnsetType:
        return list(self.additional_directories) if self.additional_directories else UNSET


def _absolute(folder: AnyPath) -> str:
    text = os.fspath(folder)
    if not text:
        raise UsageError("a folder must have a name; `.` is the current one")
    return os.path.abspath(os.path.expanduser(text))
