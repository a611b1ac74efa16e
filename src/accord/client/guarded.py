"""Files and terminals for the agent: confined to the session's folders, and within what the permissions allow.

An agent may live in a container or on another machine: that it asks here for a file or a command is no proof that it asked
the user before. Commands get no credentials of the user's environment.
"""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypedDict, Unpack

from accord.client.consent import Consent
from accord.client.judging import bounds_of
from accord.client.session import ClientSession
from accord.errors import InvalidParams
from accord.policy.request import Category, Request
from accord.policy.sandbox.environment import without_credentials
from accord.schema.tools import ToolKind
from accord.workspace.roots import AnyPath
from accord.workspace.terminals import Terminals
from accord.workspace.workspace import LocalWorkspace, Workspace

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
        return GuardedWorkspace(session, consent, LocalWorkspace(session.roots, terminals=terminals))

    return make


class GuardedWorkspace(LocalWorkspace):
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
        wanted = Request(bounds=bounds_of(session), grants=consent.grants_of(session), **request)
        if not await consent.may(session, wanted, what, extras):
            raise InvalidParams(f"Permission denied: {what}")
