"""How `accord run` and `accord chat` answer permission requests, and the workspace that enforces the answers.

An automatic decision only ever picks `allow_once`, and only if the agent offers it. A refusal picks an option
that rejects. The user sees every option by name, and none is preselected. "Always" lasts as long as the
session.
"""

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, TypedDict, Unpack

from accord.client.client_session import ClientSession
from accord.client.permissions import READ_ONLY_KINDS, PermissionChoice, PermissionRequest
from accord.errors import InvalidParams
from accord.frontend.policy_handler import (
    action_request,
    decide,
    refusal,
    requested_command,
    session_directories,
)
from accord.policy.policy import Policy
from accord.policy.request import ActionRequest, Category, Decision, Grants, ResolvedPath
from accord.policy.sandbox.command_environment import without_credentials
from accord.policy.user_answer import options_for, read_answer, remember
from accord.safe_text import one_line
from accord.schema import PermissionOption
from accord.schema.content import ToolKind
from accord.workspace.roots import AnyPath
from accord.workspace.terminals import Terminals
from accord.workspace.workspace import LocalWorkspace, Workspace

_WRITE_KINDS: Final = frozenset(("edit", "delete", "move"))
_SHELLS: Final = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_SHELL_FLAGS: Final = frozenset(("-c", "-lc"))


class Approval:
    """An approved permission request: it covers what its tool call then does through this client.

    So the user is not asked twice. It covers exactly the files that were shown, or exactly the command in its
    directory, until the tool call ends. An approval that names neither covers nothing. The policy remembers
    "always".
    """

    def __init__(self, request: PermissionRequest, action: ActionRequest) -> None:
        self._session = request.session
        self._call_id = request.call.tool_call_id
        self._kind = action.kind
        self._paths = {
            resolved.real for path in action.paths if (resolved := action.directories.resolve(path))
        }
        self._command = requested_command(request)
        self._cwd = _cwd(action)

    @property
    def active(self) -> bool:
        """Whether its tool call has not ended yet."""
        call = self._session.state.tool_calls.get(self._call_id)
        return call is None or call.open

    def covers(self, session: ClientSession, action: ActionRequest) -> bool:
        """Whether the user approved this action with the request."""
        if session is not self._session or not self.active:
            return False
        if action.kind == "read":
            return self._covers_paths(action) or (self._kind in READ_ONLY_KINDS and not self._paths)
        if action.kind == "execute":
            return self._kind == "execute" and self._covers_command(action)
        return self._kind in _WRITE_KINDS and self._covers_paths(action)

    def _covers_paths(self, action: ActionRequest) -> bool:
        paths = [action.directories.resolve(path) for path in action.paths]
        return bool(paths) and all(path is not None and path.real in self._paths for path in paths)

    def _covers_command(self, action: ActionRequest) -> bool:
        if self._command is None or action.command is None or _cwd(action) != self._cwd:
            return False
        return bool(_shell_lines(self._command) & _shell_lines(action.command))


def _cwd(action: ActionRequest) -> ResolvedPath | None:
    return action.directories.resolve(action.cwd or action.directories.cwd)


def _shell_lines(command: str | tuple[str, ...]) -> set[str]:
    """The shell lines with exactly this meaning: agents request a line and run a shell, or vice versa."""
    if isinstance(command, str):
        return {command}
    if len(command) == 3 and command[0].rpartition("/")[2] in _SHELLS and command[1] in _SHELL_FLAGS:
        return {command[2], shlex.join(command)}
    return {shlex.join(command)}


_ALLOW_ALL_RULE: Final = "default all"
"""The rule of a decision if everything is allowed."""


class ConsentQuestion(Protocol):
    """Asks the user one question. Returns the chosen option, or None if the user did not choose."""

    async def permission(
        self, request: PermissionRequest, action: ActionRequest, decision: Decision, /
    ) -> PermissionOption | None:
        """Ask whether a tool call may run."""
        ...

    async def access(
        self,
        session: ClientSession,
        what: str,
        extras: Sequence[str],
        decision: Decision,
        options: Sequence[PermissionOption],
    ) -> PermissionOption | None:
        """Ask whether the agent may use a file or a terminal of this client."""
        ...


class ConsentPrompt(Protocol):
    """Asks the user. Only one question is shown at a time."""

    def start_question(self) -> AbstractAsyncContextManager[ConsentQuestion]:
        """Wait for earlier questions and start one."""
        ...


class Consent:
    """Decides the requests of one run. `prompt` is None if there is no user to ask."""

    def __init__(self, policy: Policy, prompt: ConsentPrompt | None, note: Callable[[str], None]) -> None:
        self.refused: list[str] = []
        """Descriptions of what was refused."""
        self.request_count: int = 0
        """The number of requests so far."""
        self.wait_until_shown: Callable[[ClientSession], Awaitable[None]] | None = None
        """Waits until everything that the agent sent before its request has been shown."""
        self._policy = policy
        self._prompt = prompt
        self._note = note
        self._grants: dict[str, Grants] = {}
        self._approvals: list[Approval] = []

    # -- permission requests ---------------------------------------------------------------------------------

    async def __call__(self, request: PermissionRequest) -> PermissionChoice:
        """Answer a permission request of the agent."""
        self.request_count += 1
        action = action_request(request, self.grants_of(request.session))
        decision = decide(self._policy, action, request)
        if decision.effect == "allow" and (option := request.option("allow_once")) is not None:
            self._approve(request, action)
            return option
        if decision.effect == "deny":
            return self._refuse(request, decision.reason)
        if self._prompt is None:
            return self._refuse(request, self._refusal_reason(decision))
        if self.wait_until_shown is not None:
            await self.wait_until_shown(request.session)
        async with self._prompt.start_question() as question:
            # The answer to an earlier question can decide this one.
            new_decision = decide(self._policy, action, request)
            if new_decision.effect != "ask" and not (
                new_decision.allowed and request.option("allow_once") is None
            ):
                if new_decision.allowed:
                    self._approve(request, action)
                    return request.option("allow_once")
                return self._refuse(request, new_decision.reason)
            option = await question.permission(request, action, decision)
        if option is None:
            return self._refuse(request, "you did not choose")
        answer = read_answer(request.options, option)
        remember(action, decision, answer)
        if answer.allowed:
            self._approve(request, action)
        else:
            self.refused.append(request.call.label)
        return option

    def _refuse(self, request: PermissionRequest, reason: str) -> PermissionChoice:
        self.refused.append(request.call.label)
        self._note(f"refused: {one_line(request.call.label)}: {reason}")
        return refusal(request)

    def _refusal_reason(self, decision: Decision) -> str:
        if decision.allowed:
            return "the agent does not offer `allow_once`"
        return f"{decision.reason}, and there is no terminal to ask on (see --permissions)"

    # -- files and terminals of this client ------------------------------------------------------------------

    async def allows(
        self, session: ClientSession, action: ActionRequest, what: str, extras: Sequence[str] = ()
    ) -> bool:
        """Whether the agent may read, write or run something through this client.

        An earlier approval of the same action counts. `extras` are lines about what rules and approvals do
        not cover, such as variables that change what a command does. With extras, only the default `all` or
        the user allows the action.
        """
        self.request_count += 1
        decision = self._policy.decide(action)
        if extras and decision.effect != "deny" and decision.rule != _ALLOW_ALL_RULE:
            decision = Decision("ask", "it sets environment variables", "variables")
        elif decision.allowed or (decision.effect == "ask" and self._is_covered(session, action, decision)):
            return True
        if decision.effect == "ask" and self._prompt is not None:
            return await self._ask(session, action, decision, what, extras)
        reason = decision.reason if decision.effect == "deny" else self._refusal_reason(decision)
        self.refused.append(what)
        self._note(f"refused: {what}: {reason}")
        return False

    def grants_of(self, session: ClientSession) -> Grants:
        """The grants of a session."""
        return self._grants.setdefault(session.id, Grants())

    async def _ask(
        self,
        session: ClientSession,
        action: ActionRequest,
        decision: Decision,
        what: str,
        extras: Sequence[str],
    ) -> bool:
        assert self._prompt is not None
        options = options_for(action, decision)
        if self.wait_until_shown is not None:
            await self.wait_until_shown(session)
        async with self._prompt.start_question() as question:
            if not extras and self._policy.decide(action).allowed:
                return True
            option = await question.access(session, what, extras, decision, options)
        answer = read_answer(options, option)
        remember(action, decision, answer)
        if not answer.allowed:
            self.refused.append(what)
        return answer.allowed

    def _is_covered(self, session: ClientSession, action: ActionRequest, decision: Decision) -> bool:
        """Whether the action needs no question."""
        if action.kind == "read" and decision.rule.startswith("default"):
            return True  # the workspace already offers reading in the session's directories
        return any(approval.covers(session, action) for approval in self._approvals)

    def _approve(self, request: PermissionRequest, action: ActionRequest) -> None:
        active = [approval for approval in self._approvals if approval.active]
        self._approvals = [*active, Approval(request, action)]


_DISPLAY_VARIABLES: Final = frozenset(
    ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CI", "LANG", "LC_ALL", "COLUMNS", "LINES")
)
"""Variables that change how the output of a command looks, not what it does."""


class _Action(TypedDict, total=False):
    kind: ToolKind
    category: Category
    paths: tuple[AnyPath, ...]
    command: str | tuple[str, ...]
    cwd: AnyPath | None


def permission_workspace(consent: Consent) -> Callable[[ClientSession], Workspace]:
    """A function that creates the `PermissionWorkspace` of a session."""

    def make(session: ClientSession) -> Workspace:
        environment = without_credentials(os.environ)
        terminals = Terminals(session.roots, base_env=environment, on_output=session.terminals.add_output)
        return PermissionWorkspace(session, consent, LocalWorkspace(session.roots, terminals=terminals))

    return make


class PermissionWorkspace(LocalWorkspace):
    """The files and terminals of this machine, limited to the session's directories and to allowed actions.

    An agent can run in a container or on another machine. A request for a file or a command does not prove
    that the agent asked the user. Commands get no credentials from the user's environment.
    """

    def __init__(self, session: ClientSession, consent: Consent, local: LocalWorkspace) -> None:
        super().__init__(local.roots, files=local.files, terminals=local.terminals)
        self._session = session
        self._consent = consent

    async def read_text_file(self, path: AnyPath, line: int | None = None, limit: int | None = None) -> str:
        self.roots.resolve(path)  # refuse outside paths before the user is asked
        await self._require(f"read {os.fspath(path)}", kind="read", category="read-only", paths=(path,))
        return await super().read_text_file(path, line, limit)

    async def write_text_file(self, path: AnyPath, content: str) -> None:
        self.roots.resolve(path)
        await self._require(f"write {os.fspath(path)}", kind="edit", category="write", paths=(path,))
        await super().write_text_file(path, content)

    async def create_terminal(
        self,
        command: str,
        args: Sequence[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        cwd: AnyPath | None = None,
        output_byte_limit: int | None = None,
    ) -> str:
        command_words = command if not args else (command, *args)
        command_text = command if not args else shlex.join((command, *args))
        directory = None if cwd is None else self.roots.resolve(cwd)
        if directory is not None:
            command_text = f"{command_text} in {directory}"
        variables = [
            f"with {name}={value}" for name, value in (env or {}).items() if name not in _DISPLAY_VARIABLES
        ]
        await self._require(
            f"run {command_text}",
            variables,
            kind="execute",
            category="execute",
            command=command_words,
            cwd=directory,
        )
        return await super().create_terminal(
            command, args, env=env, cwd=cwd, output_byte_limit=output_byte_limit
        )

    async def _require(self, what: str, extras: Sequence[str] = (), **members: Unpack[_Action]) -> None:
        session, consent = self._session, self._consent
        action = ActionRequest(
            directories=session_directories(session), grants=consent.grants_of(session), **members
        )
        if not await consent.allows(session, action, what, extras):
            raise InvalidParams(f"Permission denied: {what}")
