"""Decide by rules or by the user; remember approvals; the workspace that enforces both."""

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, TypedDict, Unpack

from accord.client.client_session import ClientSession
from accord.client.permissions import READ_ONLY_KINDS, PermissionChoice, PermissionRequest
from accord.errors import InvalidParams
from accord.frontend.policy_handler import bounds_of, command_in, refusal, request_of, verdict
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

# MERGED client.given: A permission that was given: it covers what its tool call then does through this client, so that nobody is asked twice.
#
# It covers no more than was shown and agreed to: the very files that were named, the very command, in its folder, and only until
# the call is over. A yes to something that names neither covers nothing here, and an "always" is for the policy to remember.

_CHANGING: Final = frozenset(("edit", "delete", "move"))
_SHELLS: Final = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_RUN: Final = frozenset(("-c", "-lc"))


class Approval:
    """One of them."""

    def __init__(self, asked: PermissionRequest, request: ActionRequest) -> None:
        self._session = asked.session
        self._call_id = asked.call.tool_call_id
        self._kind = request.kind
        self._places = {place.real for path in request.paths if (place := request.directories.resolve(path))}
        self._command = command_in(asked)
        self._where = _where(request)

    @property
    def lasts(self) -> bool:
        """Whether its tool call is not over yet."""
        call = self._session.state.tool_calls.get(self._call_id)
        return call is None or call.open

    def covers(self, session: ClientSession, wanted: ActionRequest) -> bool:
        """Whether this was part of what was agreed to."""
        if session is not self._session or not self.lasts:
            return False
        if wanted.kind == "read":
            return self._names(wanted) or (self._kind in READ_ONLY_KINDS and not self._places)
        if wanted.kind == "execute":
            return self._kind == "execute" and self._runs(wanted)
        return self._kind in _CHANGING and self._names(wanted)

    def _names(self, wanted: ActionRequest) -> bool:
        places = [wanted.directories.resolve(path) for path in wanted.paths]
        return bool(places) and all(place is not None and place.real in self._places for place in places)

    def _runs(self, wanted: ActionRequest) -> bool:
        if self._command is None or wanted.command is None or _where(wanted) != self._where:
            return False
        return bool(_lines(self._command) & _lines(wanted.command))


def _where(request: ActionRequest) -> ResolvedPath | None:
    return request.directories.resolve(request.cwd or request.directories.cwd)


def _lines(command: str | tuple[str, ...]) -> set[str]:
    """The shell lines that mean exactly this: agents ask for a line and run it in a shell, or the other way round."""
    if isinstance(command, str):
        return {command}
    if len(command) == 3 and command[0].rpartition("/")[2] in _SHELLS and command[1] in _RUN:
        return {command[2], shlex.join(command)}
    return {shlex.join(command)}


# MERGED client.consent: Consent: whether what the agent wants is allowed, by the rules, by the person at the terminal, or not at all.
#
# What decides by itself only ever picks `allow_once`, and only where the agent offers it; a refusal picks an option that
# refuses. A person sees every option by its name, with none of them preselected. An "always" lasts as long as the session.

_ANYTHING: Final = "default all"
"""What decided where everything is allowed."""


class ConsentQuestion(Protocol):
    """Somebody who attends to one question. They see every option, and none is chosen for them; None: went away."""

    async def permission(
        self, asked: PermissionRequest, request: ActionRequest, decision: Decision
    ) -> PermissionOption | None:
        """May this tool call run?"""
        ...

    async def access(
        self,
        session: ClientSession,
        what: str,
        extras: Sequence[str],
        decision: Decision,
        options: Sequence[PermissionOption],
    ) -> PermissionOption | None:
        """May the agent do this through this client?"""
        ...


class ConsentPrompt(Protocol):
    """Who can be asked. Questions wait for each other."""

    def asked(self) -> AbstractAsyncContextManager[ConsentQuestion]:
        """Have the person's attention."""
        ...


class Consent:
    """The consent of one run. `person` is None where nobody can be asked."""

    def __init__(self, policy: Policy, person: ConsentPrompt | None, note: Callable[[str], None]) -> None:
        self.refused: list[str] = []
        """What was not allowed, in words."""
        self.done = 0
        """How often something was asked for at all."""
        self.caught_up: Callable[[ClientSession], Awaitable[None]] | None = None
        """Waits until what the agent said before its question has been shown."""
        self._policy = policy
        self._person = person
        self._note = note
        self._grants: dict[str, Grants] = {}
        self._given: list[Approval] = []

    # -- permission requests ------------------------------------------------------------------------------------

    async def __call__(self, asked: PermissionRequest) -> PermissionChoice:
        """Answer a permission request of the agent."""
        self.done += 1
        request = request_of(asked, self.grants_of(asked.session))
        decision = verdict(self._policy, request, asked)
        if decision.effect == "allow" and (option := asked.option("allow_once")) is not None:
            self._give(asked, request)
            return option
        if decision.effect == "deny":
            return self._refuse(asked, decision.reason)
        if self._person is None:
            return self._refuse(asked, self._why_not(decision))
        if self.caught_up is not None:
            await self.caught_up(asked.session)
        async with self._person.asked() as question:
            # The answer to another question may have settled this one.
            again = verdict(self._policy, request, asked)
            if again.effect != "ask" and not (again.allowed and asked.option("allow_once") is None):
                if again.allowed:
                    self._give(asked, request)
                    return asked.option("allow_once")
                return self._refuse(asked, again.reason)
            option = await question.permission(asked, request, decision)
        if option is None:
            return self._refuse(asked, "you did not choose")
        answer = read_answer(asked.options, option)
        remember(request, decision, answer)
        if answer.allowed:
            self._give(asked, request)
        else:
            self.refused.append(asked.call.label)
        return option

    def _refuse(self, asked: PermissionRequest, reason: str) -> PermissionChoice:
        self.refused.append(asked.call.label)
        self._note(f"refused: {one_line(asked.call.label)}: {reason}")
        return refusal(asked)

    def _why_not(self, decision: Decision) -> str:
        if decision.allowed:
            return "the agent does not offer to allow it just once"
        return f"{decision.reason}, and there is no terminal to ask on (see --permissions)"

    # -- what the agent does through us -------------------------------------------------------------------------

    async def may(
        self, session: ClientSession, request: ActionRequest, what: str, extras: Sequence[str] = ()
    ) -> bool:
        """Whether the agent may read, write or run something through this client: what was agreed to is not asked twice.

        `extras` are lines about what no rule and no earlier yes speaks of, such as variables that change what a command does: with
        any of them only `all`, or a person who has seen them, says yes.
        """
        self.done += 1
        decision = self._policy.decide(request)
        if extras and decision.effect != "deny" and decision.rule != _ANYTHING:
            decision = Decision("ask", "it brings variables of its own", "variables")
        elif decision.allowed or (decision.effect == "ask" and self._covered(session, request, decision)):
            return True
        if decision.effect == "ask" and self._person is not None:
            return await self._ask(session, request, decision, what, extras)
        reason = decision.reason if decision.effect == "deny" else self._why_not(decision)
        self.refused.append(what)
        self._note(f"refused: {what}: {reason}")
        return False

    def grants_of(self, session: ClientSession) -> Grants:
        """What the person agreed to for a session."""
        return self._grants.setdefault(session.id, Grants())

    async def _ask(
        self,
        session: ClientSession,
        request: ActionRequest,
        decision: Decision,
        what: str,
        extras: Sequence[str],
    ) -> bool:
        assert self._person is not None
        options = options_for(request, decision)
        if self.caught_up is not None:
            await self.caught_up(session)
        async with self._person.asked() as question:
            if not extras and self._policy.decide(request).allowed:
                return True
            option = await question.access(session, what, extras, decision, options)
        answer = read_answer(options, option)
        remember(request, decision, answer)
        if not answer.allowed:
            self.refused.append(what)
        return answer.allowed

    def _covered(self, session: ClientSession, request: ActionRequest, decision: Decision) -> bool:
        """Whether a question about this would be one too many."""
        if request.kind == "read" and decision.rule.startswith("default"):
            return True  # that it may read in its folders is what it was offered
        return any(given.covers(session, request) for given in self._given)

    def _give(self, asked: PermissionRequest, request: ActionRequest) -> None:
        self._given = [*(given for given in self._given if given.lasts), Approval(asked, request)]


# MERGED client.guarded: Files and terminals for the agent: confined to the session's folders, and within what the permissions allow.
#
# An agent may live in a container or on another machine: that it asks here for a file or a command is no proof that it asked
# the user before. Commands get no credentials of the user's environment.

_HARMLESS: Final = frozenset(
    ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CI", "LANG", "LC_ALL", "COLUMNS", "LINES")
)
"""Variables that change how a command looks, not what it does."""


class _Wanted(TypedDict, total=False):
    kind: ToolKind
    category: Category
    paths: tuple[AnyPath, ...]
    command: str | tuple[str, ...]
    cwd: AnyPath | None


def guarded_workspace(consent: Consent) -> Callable[[ClientSession], Workspace]:
    """Makes the workspace of each session."""

    def make(session: ClientSession) -> Workspace:
        environment = without_credentials(os.environ)
        terminals = Terminals(session.roots, base_env=environment, on_output=session.terminals.printed)
        return PermissionWorkspace(session, consent, LocalWorkspace(session.roots, terminals=terminals))

    return make


class PermissionWorkspace(LocalWorkspace):
    """The files and terminals of this machine, each use of them agreed to."""

    def __init__(self, session: ClientSession, consent: Consent, local: LocalWorkspace) -> None:
        super().__init__(local.roots, files=local.files, terminals=local.terminals)
        self._session = session
        self._consent = consent

    async def read_text_file(self, path: AnyPath, line: int | None = None, limit: int | None = None) -> str:
        """Refuses what lies outside before anybody is asked about it."""
        self.roots.resolve(path)
        await self._insist(f"read {os.fspath(path)}", kind="read", category="read-only", paths=(path,))
        return await super().read_text_file(path, line, limit)

    async def write_text_file(self, path: AnyPath, content: str) -> None:
        self.roots.resolve(path)
        await self._insist(f"write {os.fspath(path)}", kind="edit", category="write", paths=(path,))
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
        line = command if not args else (command, *args)
        shown = command if not args else shlex.join((command, *args))
        where = None if cwd is None else self.roots.resolve(cwd)
        if where is not None:
            shown = f"{shown} in {where}"
        strange = [f"with {name}={value}" for name, value in (env or {}).items() if name not in _HARMLESS]
        await self._insist(
            f"run {shown}", strange, kind="execute", category="execute", command=line, cwd=where
        )
        return await super().create_terminal(
            command, args, env=env, cwd=cwd, output_byte_limit=output_byte_limit
        )

    async def _insist(self, what: str, extras: Sequence[str] = (), **request: Unpack[_Wanted]) -> None:
        session, consent = self._session, self._consent
        wanted = ActionRequest(directories=bounds_of(session), grants=consent.grants_of(session), **request)
        if not await consent.may(session, wanted, what, extras):
            raise InvalidParams(f"Permission denied: {what}")
