"""The processes of other agents that work for one session: started on first use, ended with the session."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from accord.client.client_options import ClientFeatures, ClientOptions
from accord.client.client_session import ClientSession
from accord.client.handlers import ClientHandlers
from accord.client.permissions import PermissionChoice, PermissionRequest, reject_all
from accord.client.remote_agent import RemoteAgent
from accord.clock import within
from accord.errors import AccordError, AuthRequired
from accord.frontend.agent_config import ConfiguredAgent, leave_out, load
from accord.frontend.agent_config.configured_agents import ConfiguredAgents
from accord.frontend.consent import Consent, permission_workspace
from accord.policy.policy import Policy
from accord.policy.rules import Rules
from accord.safe_text import one_line
from accord.workspace.workspace import Workspace

if TYPE_CHECKING:
    from accord.coder.session.coder_session import CoderSession

STOP_SECONDS: Final = 3.0
"""How long an agent may take to stop after a cancel, before its process is ended."""
_BYPASS_MODES: Final = ("bypassPermissions", "full-access", "agent-full-access", "yolo", "auto", "dontAsk")
ASKING_MODES: Final = ("default", "ask", "agent", "manual")

_LOG: Final = logging.getLogger("accord.coder")


class AgentPool:
    """The other agents of one session. Entries of a project's `acp.json` count once the user trusts it."""

    def __init__(self, session: "CoderSession") -> None:
        self._session = session
        self._running: dict[str, RemoteAgent] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._consents: dict[ClientSession, Consent] = {}
        """Who answers the requests of a session. Two agents may use the same session id."""
        self._agents = ConfiguredAgents()
        self.problem: str = ""
        """Why the agents cannot be read, or why some do not count."""

    def load(self) -> None:
        """Read the configuration again. Blocks: call it in a thread."""
        self.problem = ""
        try:
            self._agents = load(self._session.agent_session.cwd, trust=leave_out)
        except AccordError as error:
            self.problem = one_line(str(error), 500)
            return
        if (file := self._agents.untrusted_file) is not None:
            self.problem = f"`{one_line(str(file.path), 300)}`: not trusted; run `accord agents trust`"

    @property
    def names(self) -> dict[str, str]:
        """The agents that are configured in a file, with their descriptions; without this one."""
        return {
            agent.name: one_line(agent.description or f"another agent ({agent.name})", 300)
            for agent in self._agents.configured
            if agent.origin in ("user", "project") and not agent.is_built_in
        }

    def find(self, name: str) -> ConfiguredAgent:
        """An agent of the files or the catalog. Raises UnknownAgent."""
        return self._agents[name]

    async def open(self, name: str, consent: Consent, *, resume: str | None = None) -> ClientSession:
        """Open a session of the agent in our folders, or load one of it. Starts the agent if needed.

        Raises AccordError. `consent` answers the requests of the session.
        """
        agent = await self._agent(name)
        session = self._session.agent_session
        folders = session.additional_directories
        servers = await asyncio.to_thread(self.find(name).mcp_servers)
        if resume is not None:
            opened = await agent.load_session(
                resume, session.cwd, additional_directories=folders, mcp_servers=servers
            )
        else:
            opened = await agent.new_session(session.cwd, additional_directories=folders, mcp_servers=servers)
        self._consents[opened] = consent
        await _leave_bypass_mode(opened)
        return opened

    async def close(self, session: ClientSession) -> None:
        """Close a session of an agent. Its process goes on."""
        self._consents.pop(session, None)
        with suppress(AccordError):
            await session.close()

    async def stop(self, name: str, session: ClientSession, turn: "asyncio.Future[None]") -> None:
        """Cancel the turn of an agent, and end its process if it does not stop."""
        session.cancel()
        if not await within(self._session.clock, STOP_SECONDS, turn):
            _LOG.warning("%s did not stop within %.0f s and was ended", one_line(name, 60), STOP_SECONDS)
            turn.cancel()
            await self._end(name)

    async def aclose(self) -> None:
        """End all agents."""
        await asyncio.gather(*(self._end(name) for name in list(self._running)))

    async def _end(self, name: str) -> None:
        agent = self._running.get(name)
        if agent is None:
            return
        with suppress(AccordError):
            await agent.aclose()
        if self._running.get(name) is agent:  # kept until now: `aclose` waits for its end as well
            del self._running[name]

    async def _agent(self, name: str) -> RemoteAgent:
        """The running agent; starts it first if needed."""
        configured = self.find(name)
        async with self._locks.setdefault(configured.name, asyncio.Lock()):
            agent = self._running.get(configured.name)
            if agent is not None and agent.connected:
                return agent
            await self._end(configured.name)
            handlers = ClientHandlers(
                permissions=self._permission,
                workspace=self._workspace if configured.uses_client_files else None,
            )
            options = ClientOptions(
                features=ClientFeatures(notices=True),
                clock=self._session.clock,
                on_stderr=lambda line: _LOG.info("%s: %s", configured.name, line),
            )
            pending = replace(configured, max_restarts=0).connect(
                self._session.agent_session.cwd, handlers=handlers, options=options
            )
            agent = await pending
            self._running[configured.name] = agent
            return agent

    async def _permission(self, request: PermissionRequest) -> PermissionChoice:
        consent = self._consents.get(request.session)
        return reject_all(request) if consent is None else await consent(request)

    def _workspace(self, session: ClientSession) -> Workspace:
        consent = self._consents.get(session)
        if consent is None:  # before the session is open
            consent = Consent(Policy(Rules(default="none")), None, _LOG.info)
        return permission_workspace(consent)(session)


def failure_of(name: str, error: AccordError) -> str:
    """Why an agent could not work, on one line, with what the user can do about it."""
    if isinstance(error, AuthRequired):
        login = f"accord agents login {one_line(name, 60)}"
        return f"{one_line(error.message, 300)}; sign in to it first: {login}"
    return one_line(str(error), 500)


async def _leave_bypass_mode(session: ClientSession) -> None:
    """Choose a mode in which the agent asks, if it begins in one in which it does not."""
    settings = session.state.settings
    if settings.current_mode_id not in _BYPASS_MODES or not settings.modes:
        return
    ids = [mode.id for mode in settings.modes]
    asking = next((mode for mode in ASKING_MODES if mode in ids), None)
    if asking is not None:
        with suppress(AccordError):
            await session.set_mode(asking)
