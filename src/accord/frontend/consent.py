"""How `accord run` and `accord chat` answer permission requests, and the workspace that enforces the answers.

An automatic decision only ever picks `allow_once`, and only if the agent offers it. A refusal picks an option
that rejects. The user sees every option by name, and none is preselected. "Always" lasts as long as the
session.
"""

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Protocol, TypeAlias, TypedDict, Unpack

from accord.client.client_session import ClientSession
from accord.client.permissions import PermissionChoice, PermissionRequest
from accord.errors import InvalidParams
from accord.frontend.policy_handler import (
    action_request,
    command_lines,
    current_text,
    decide,
    is_shell,
    is_system_shell,
    quoted_command,
    refusal,
    requested_command,
    requested_folder,
    session_directories,
    shown_diffs,
)
from accord.policy.policy import Policy
from accord.policy.request import ActionRequest, Category, Decision, Grants, ResolvedPath, SessionDirectories
from accord.policy.sandbox.command_environment import without_credentials
from accord.policy.shell.grammar import parse_shell
from accord.policy.user_answer import UserAnswer, options_for, read_answer, remember
from accord.safe_text import one_line
from accord.schema import Diff, PermissionOption
from accord.schema.content import ToolKind
from accord.workspace.roots import AnyPath
from accord.workspace.terminal_command import TerminalCommand, is_program_with_spaces, require_program
from accord.workspace.terminals import Terminals
from accord.workspace.workspace import LocalWorkspace, Workspace

_WRITE_KINDS: Final = frozenset(("edit", "delete", "move"))


class Approval:
    """An approved permission request: it covers what its tool call then does through this client.

    So the user is not asked twice. It covers exactly the command in its directory, once, or exactly the
    change of a file that was shown, until the tool call or the turn ends. An approval that names neither
    covers nothing.
    A request that the rules approved covers the files that it names. A request without an official kind
    counts only if the user approved it.
    """

    def __init__(
        self, request: PermissionRequest, action: ActionRequest, answer: UserAnswer | None = None
    ) -> None:
        """`answer` is None if the rules approved the request, not the user."""
        self.always: bool = answer is not None and answer.always
        self._session = request.session
        self._turn = request.session.turn_number
        self._call_id = request.call.tool_call_id
        self._is_new_call = request.call.open  # some agents use an id again in a later turn
        self._kind = action.kind
        self._is_unclear = answer is not None and action.kind in (None, "other")
        self._changes = None if answer is None else shown_diffs(request)
        paths = [diff.path for diff in self._changes or ()] if self._is_unclear else action.paths
        self._paths = {resolved.real for path in paths if (resolved := action.directories.resolve(path))}
        self._command = requested_command(request)
        if self._command is None and answer is not None:
            self._command = quoted_command(request)
        self._cwd = action.directories.resolve(requested_folder(request))
        self._is_used = False

    @property
    def active(self) -> bool:
        """Whether its turn and its tool call have not ended yet."""
        if self._is_used or self._session.turn_number != self._turn:
            return False
        call = self._session.state.tool_calls.get(self._call_id)
        return call is None or call.open or not self._is_new_call

    def covers(self, action: ActionRequest, question: "AccessQuestion") -> bool:
        """Whether this action was approved with the request. A command is covered once."""
        if question.session is not self._session or not self.active:
            return False
        if action.kind == "read":
            return self._covers_paths(action)
        if action.kind == "execute":
            self._is_used = (self._kind == "execute" or self._is_unclear) and self._covers_command(action)
            return self._is_used
        is_write = self._kind in _WRITE_KINDS or self._is_unclear
        return is_write and self._covers_paths(action) and self._covers_change(action, question.diff)

    def _covers_paths(self, action: ActionRequest) -> bool:
        paths = [action.directories.resolve(path) for path in action.paths]
        return bool(paths) and all(path is not None and path.real in self._paths for path in paths)

    def _covers_change(self, action: ActionRequest, change: Diff | None) -> bool:
        """Whether the file then has the text that the shown changes lead to."""
        if self._changes is None:
            return True
        path = None if change is None else action.directories.resolve(change.path)
        if change is None or path is None:
            return False
        shown = [
            diff
            for diff in self._changes
            if (target := action.directories.resolve(diff.path)) and target.real == path.real
        ]
        return bool(shown) and _comparable(change.new_text) in _changed_texts(change.old_text, shown)

    def _covers_command(self, action: ActionRequest) -> bool:
        if self._command is None or action.command is None or self._cwd is None:
            return False
        approved = _shell_lines(self._command, action.directories)
        requested = _shell_lines(action.command, action.directories)
        if approved & requested:
            return _cwd(action) == self._cwd
        return any(
            _wrapped_cwd(line, command, action) == self._cwd for line in requested for command in approved
        )


def _cwd(action: ActionRequest) -> ResolvedPath | None:
    return action.directories.resolve(action.cwd or action.directories.cwd)


_MAX_RESULTS: Final = 8
"""How many results of a change are compared, if the changed lines are in the file several times."""


def _comparable(text: str) -> str:
    """The text without a byte order mark and with line feeds: diffs do not show these."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _changed_texts(old: object, changes: Sequence[Diff]) -> set[str]:
    """The texts that the changes can lead to. A change shows the whole text, or a part of it."""
    texts = {_comparable(old) if isinstance(old, str) else ""}
    for change in changes:
        texts = set(
            islice((text for before in texts for text in _apply_change(before, change)), _MAX_RESULTS)
        )
    return texts


def _apply_change(text: str, change: Diff) -> Iterator[str]:
    old = _comparable(change.old_text) if isinstance(change.old_text, str) else ""
    new = _comparable(change.new_text)
    if old == text:
        yield new
    elif old and old in text:
        yield text.replace(old, new)
        position = text.find(old)
        while position >= 0:
            yield text[:position] + new + text[position + len(old) :]
            position = text.find(old, position + 1)


def _shell_lines(command: str | tuple[str, ...], directories: SessionDirectories) -> set[str]:
    """The shell lines with exactly this meaning: agents request a line and run a shell, or vice versa."""
    if isinstance(command, str):
        return {command}
    program, *words = command
    is_shell_line = words[:1] in (["-c"], ["-lc"]) and is_shell(program, directories)
    # Words behind the line are only its `$0`, `$1` and so on.
    if is_shell_line and (len(words) == 2 or (len(words) > 2 and "$" not in words[1])):
        return {words[1], shlex.join(command)}
    return {shlex.join(command)}


_HARMLESS_AMPERSANDS: Final = re.compile(r"&&|>&[0-9-]")
"""All other ampersands may run a command in the background, `&>` in some shells too."""


def _wrapped_cwd(line: str, command: str, action: ActionRequest) -> ResolvedPath | None:
    """The directory D of a line `cd D && COMMAND` if D is an absolute path in the session's directories.

    `cd D && A & B` changes the directory only for A, so it counts only in a terminal that is in D already.
    """
    prefix = line.removesuffix(f" && {command}")
    parsed = parse_shell(prefix)
    if prefix == line or parsed.doubts or parsed.unsupported is not None or len(parsed.commands) != 1:
        return None
    words = parsed.commands[0].words
    # No more than these two words: no subshell, assignment or redirection.
    if len(words) != 2 or words[0].text != "cd" or prefix != f"cd {words[1].raw}":
        return None
    path = words[1].text
    directory = action.directories.resolve(path) if path is not None and os.path.isabs(path) else None
    if directory is None or not action.directories.is_inside(directory.real):
        return None
    if "&" in _HARMLESS_AMPERSANDS.sub("", command) and _cwd(action) != directory:
        return None
    return directory if directory.real.is_dir() else None


AccessKey: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class AccessQuestion:
    """A question that Accord asks itself: may the agent use a file or a terminal of this machine?"""

    session: ClientSession
    verb: str
    """What the agent wants to do, such as `run a command`."""
    what: str
    """The action in one line, for notes."""
    details: tuple[str, ...]
    """The action for the user, such as `$ make` and `in /project`."""
    extras: tuple[str, ...] = ()
    """What rules and approvals do not cover, such as variables that change what a command does."""
    content: str | None = None
    """The new text of a file."""
    diff: Diff | None = None
    """The change of a file. It is filled in when the user is asked."""

    @property
    def key(self) -> "AccessKey":
        """Identifies exactly this action in this session."""
        return self.session.id, self.details, self.extras

    @property
    def title(self) -> str:
        """The question, which names Accord: the agent did not ask this."""
        return f"Accord asks: may {one_line(self.session.agent.name, 40)} {self.verb}?"

    def with_diff(self, action: ActionRequest) -> "AccessQuestion":
        """Add the change of the file. Blocking: reads it."""
        if self.content is None:
            return self
        path = action.paths[0]
        old = current_text(self.session.roots, path)
        return replace(self, diff=Diff(os.fspath(path), self.content, old))


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
        self, question: AccessQuestion, decision: Decision, options: Sequence[PermissionOption], /
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
        self._always_offered: set[str] = set()
        """The sessions whose agent offered an "always" of its own."""
        self._always_allowed: set[AccessKey] = set()

    # -- permission requests ---------------------------------------------------------------------------------

    async def __call__(self, request: PermissionRequest) -> PermissionChoice:
        """Answer a permission request of the agent."""
        self.request_count += 1
        if request.option("allow_always") is not None:
            self._always_offered.add(request.session.id)
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
            self._approve(request, action, answer)
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

    async def allows(self, action: ActionRequest, question: AccessQuestion) -> bool:
        """Whether the agent may read, write or run something through this client.

        An earlier approval of the same action counts. With extras, only the default `all` or the user allows
        the action.
        """
        self.request_count += 1
        decision = self._policy.decide(action)
        if decision.effect != "deny" and question.key in self._always_allowed:
            return True
        if question.extras and decision.effect != "deny" and decision.rule != _ALLOW_ALL_RULE:
            decision = Decision("ask", "it sets environment variables", "variables")
        elif decision.allowed or await self._is_covered(action, decision, question):
            return True
        if decision.effect == "ask" and self._prompt is not None:
            return await self._ask(action, decision, question)
        reason = decision.reason if decision.effect == "deny" else self._refusal_reason(decision)
        self.refused.append(question.what)
        self._note(f"refused: {question.what}: {reason}")
        return False

    def grants_of(self, session: ClientSession) -> Grants:
        return self._grants.setdefault(session.id, Grants())

    async def _ask(self, action: ActionRequest, decision: Decision, question: AccessQuestion) -> bool:
        assert self._prompt is not None
        options = options_for(action, decision)
        is_exact = decision.scope is None and action.kind == "execute"
        if is_exact and question.session.id in self._always_offered:
            name = "Always allow exactly this in this session"
            options.insert(1, PermissionOption("allow_always", name, "allow_always"))
        if self.wait_until_shown is not None:
            await self.wait_until_shown(question.session)
        async with self._prompt.start_question() as prompt:
            # The answer to an earlier question can decide this one.
            latest = self._policy.decide(action)
            if not question.extras and (latest.allowed or await self._is_covered(action, latest, question)):
                return True
            question = await asyncio.to_thread(question.with_diff, action)
            option = await prompt.access(question, decision, options)
        answer = read_answer(options, option)
        remember(action, decision, answer)
        if answer.allowed and answer.always and is_exact:
            self._always_allowed.add(question.key)
        if not answer.allowed:
            self.refused.append(question.what)
        return answer.allowed

    async def _is_covered(self, action: ActionRequest, decision: Decision, question: AccessQuestion) -> bool:
        """Whether the action needs no question."""
        if decision.effect != "ask":
            return False
        if action.kind == "read" and decision.rule.startswith("default"):
            return True  # the workspace already offers reading in the session's directories
        if self._approvals:
            question = await asyncio.to_thread(question.with_diff, action)
        for approval in self._approvals:
            if approval.covers(action, question):
                if approval.always and action.kind == "execute":
                    # The user chose the agent's "always": do not ask for exactly this again.
                    self._always_allowed.add(question.key)
                return True
        return False

    def _approve(
        self, request: PermissionRequest, action: ActionRequest, answer: UserAnswer | None = None
    ) -> None:
        active = [approval for approval in self._approvals if approval.active]
        self._approvals = [*active, Approval(request, action, answer)]


_HARMLESS_VARIABLES: Final = frozenset((
    "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CI", "LANG", "LC_ALL", "COLUMNS", "LINES",
    "AGENT_SESSION_ID",
))  # fmt: skip
"""Variables that change how the output of a command looks, or name the session; not what it does."""


def _is_harmless(name: str, value: str, environment: Mapping[str, str]) -> bool:
    """Whether a variable does not change what a command does."""
    if name in _HARMLESS_VARIABLES or environment.get(name) == value:
        return True
    if name == "SHELL":
        return is_system_shell(value)
    return name == "GIT_TERMINAL_PROMPT" and value in ("0", "1")


class _Action(TypedDict, total=False):
    kind: ToolKind
    category: Category
    paths: tuple[AnyPath, ...]
    command: str | tuple[str, ...]
    cwd: AnyPath | None


BeforeChange: TypeAlias = Callable[[Sequence[str]], Awaitable[None]]
"""Called with the paths of files that are about to change."""


def permission_workspace(
    consent: Consent, before_change: BeforeChange | None = None
) -> Callable[[ClientSession], Workspace]:
    """A function that creates the `PermissionWorkspace` of a session."""

    def make(session: ClientSession) -> Workspace:
        environment = without_credentials(os.environ)
        terminals = Terminals(session.roots, base_env=environment, on_output=session.terminals.add_output)
        return PermissionWorkspace(
            session, consent, LocalWorkspace(session.roots, terminals=terminals), before_change
        )

    return make


class PermissionWorkspace(LocalWorkspace):
    """The files and terminals of this machine, limited to the session's directories and to allowed actions.

    An agent can run in a container or on another machine. A request for a file or a command does not prove
    that the agent asked the user. Commands get no credentials from the user's environment.
    """

    def __init__(
        self,
        session: ClientSession,
        consent: Consent,
        local: LocalWorkspace,
        before_change: BeforeChange | None = None,
    ) -> None:
        self._before_change = before_change
        super().__init__(local.roots, files=local.files, terminals=local.terminals)
        self._session = session
        self._consent = consent

    async def read_text_file(self, path: AnyPath, line: int | None = None, limit: int | None = None) -> str:
        self.roots.resolve(path)  # refuse outside paths before the user is asked
        await self._require(
            AccessQuestion(
                self._session, "read a file", f"read {os.fspath(path)}", (f"file {os.fspath(path)}",)
            ),
            kind="read",
            category="read-only",
            paths=(path,),
        )
        return await super().read_text_file(path, line, limit)

    async def write_text_file(self, path: AnyPath, content: str) -> None:
        self.roots.resolve(path)
        await self._require(
            AccessQuestion(self._session, "write a file", f"write {os.fspath(path)}", (), content=content),
            kind="edit",
            category="write",
            paths=(path,),
        )
        if self._before_change is not None:
            await self._before_change([os.fspath(path)])
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
        request = TerminalCommand(command, args=args, env=env, cwd=cwd)
        request.check()
        directory = None if cwd is None else self.roots.resolve(cwd)
        environment = without_credentials(os.environ)
        # Fail before the user is asked.
        await asyncio.to_thread(require_program, request, self.roots, environment)
        is_program = bool(args) or await asyncio.to_thread(
            is_program_with_spaces, command, directory or self.roots.cwd, {**environment, **(env or {})}
        )
        command_words = (command, *(args or ())) if is_program else command
        command_text = command if isinstance(command_words, str) else shlex.join(command_words)
        variables = tuple(
            f"with {name}={value}"
            for name, value in (env or {}).items()
            if not _is_harmless(name, value, environment)
        )
        await self._require(
            AccessQuestion(
                self._session,
                "run a command",
                f"run {command_text}" + ("" if directory is None else f" in {directory}"),
                tuple(command_lines(command_words, str(directory or self._session.cwd), self._session)),
                variables,
            ),
            kind="execute",
            category="execute",
            command=command_words,
            cwd=directory,
        )
        return await super().create_terminal(
            command, args, env=env, cwd=cwd, output_byte_limit=output_byte_limit
        )

    async def _require(self, question: AccessQuestion, **members: Unpack[_Action]) -> None:
        session, consent = self._session, self._consent
        action = ActionRequest(
            directories=session_directories(session), grants=consent.grants_of(session), **members
        )
        if not await consent.allows(action, question):
            raise InvalidParams(f"Permission denied: {question.what}")
