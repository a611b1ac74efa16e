"""Splits a request into single actions, and finds the paths that need a permission of their own.

`actions_of` returns one action for each file that is read or written, each program that runs, and each doubt
about a shell line. The policy must allow all of them. `sensitive_paths` names the paths of an action that lie
outside the session's folders, may hold secrets, or configure other programs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple

from accord.policy.command_paths import HARMLESS_DEVICES, PossibleDirectories
from accord.policy.programs.command_scopes import scope_of
from accord.policy.programs.executed_commands import ExecutedCommands, executed_commands
from accord.policy.programs.readonly_commands import (
    PrintableVariables,
    exports_variables,
    is_reading_program,
    printable_variables,
    read_only_use,
)
from accord.policy.request import ActionRequest, Grant, ResolvedPath, SessionDirectories, host_of
from accord.policy.secret_files import configures_programs, is_secret
from accord.policy.shell.command_line import line_from_arguments, parse_line
from accord.policy.shell.syntax import Redirect, SimpleCommand

Operation = Literal["read", "write", "run", "fetch", "use", "doubt"]
"""`use` calls an external tool.

`doubt` stands for something in a shell line that the parser cannot predict.
"""
Danger = Literal["secret", "outside", "steering"]
"""Why a path needs its own permission. The audit log contains these words."""


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """One thing that a request does."""

    operation: Operation
    label: str
    """A short description for the user."""
    paths: tuple[ResolvedPath, ...] = ()
    command: SimpleCommand | None = None
    host: str | None = None
    recursive: bool = False
    """Whether it affects everything below its paths."""
    open_ended: bool = False
    """Whether it may affect something below one of its paths instead."""
    only_reads: bool = False
    """Whether the program is known to change nothing and to send nothing."""
    unresolved: bool = False
    """Whether it touches a path that cannot be resolved in advance."""
    in_shell_line: bool = False
    """Whether it is part of a shell line, not a tool call of its own."""
    unparsable: bool = False
    """Whether the doubt is that the line is not valid shell syntax."""
    grant: Grant | None = None
    """The grant that an "always" answer needs, without those for its sensitive paths."""


@dataclass(frozen=True, slots=True)
class RequestedActions:
    """Everything a request does."""

    actions: tuple[RequestedAction, ...]
    directories: SessionDirectories
    """The session's directories, with the working directory of the request."""
    executed: ExecutedCommands | None = None
    """The commands of its shell line."""


class SensitivePath(NamedTuple):
    """One path that needs its own permission, and why."""

    danger: Danger
    resolved: ResolvedPath

    @property
    def reason(self) -> str:
        """The reason in one line."""
        path, real = self.resolved
        target = f" (which leads to {real})" if real != path else ""
        match self.danger:
            case "secret":
                return f"{path}{target} may hold secrets"
            case "outside":
                return f"{path}{target} lies outside the session's folders"
            case _:
                return f"{path}{target} decides what other programs run"

    def grant(self, action: RequestedAction, request: ActionRequest) -> Grant:
        """Return the grant of an "always" answer: this path, for this tool or program."""
        subject = action.command.name if action.command else request.tool or request.kind or action.operation
        return Grant("path", (self.danger, subject, str(self.resolved.real)))


def actions_of(request: ActionRequest) -> RequestedActions:
    """Split a request into its actions."""
    if request.category == "execute" and request.command is not None:
        return _command_actions(request)
    return RequestedActions(tuple(_tool_actions(request)), request.directories)


def sensitive_paths(action: RequestedAction, directories: SessionDirectories) -> Iterator[SensitivePath]:
    """Yield the paths of an action that need their own permission."""
    writes = action.operation in ("write", "use") or (action.operation == "run" and not action.only_reads)
    for resolved in action.paths:
        if _is_secret(resolved, directories):
            yield SensitivePath("secret", resolved)
        if not directories.is_inside(resolved.real):
            yield SensitivePath("outside", resolved)
        elif writes and _configures_programs(resolved, directories):
            yield SensitivePath("steering", resolved)


def _tool_actions(request: ActionRequest) -> Iterator[RequestedAction]:
    name = request.tool or request.kind or ""
    tool = Grant("tool", (name,)) if name else None
    resolved_paths = [request.directories.resolve(path) for path in request.paths]
    paths = tuple(resolved for resolved in resolved_paths if resolved)
    if request.url is not None or request.kind == "fetch":
        host = host_of(request.url) if request.url is not None else None
        grant = Grant("host", (host,)) if host else None
        label = f"fetching from {host or 'an unclear address'}"
        yield RequestedAction("fetch", label, paths, host=host, grant=grant)
        if request.category in ("read-only", "external"):
            return
    if request.category in ("execute", "external"):
        operation: Operation = "run" if request.category == "execute" else "use"
        unresolved = None in resolved_paths
        yield RequestedAction(operation, name or "an unnamed tool", paths, unresolved=unresolved, grant=tool)
        return
    operation = "read" if request.category == "read-only" else "write"
    verb, recursive = "reading" if operation == "read" else "writing", request.kind in ("delete", "move")
    for path, resolved in zip(request.paths, resolved_paths, strict=True):
        found, unresolved = (resolved,) if resolved else (), resolved is None
        label = f"{verb} {path}"
        yield RequestedAction(operation, label, found, recursive=recursive, unresolved=unresolved, grant=tool)
    if not resolved_paths:
        yield RequestedAction(operation, name or "an unnamed tool", grant=tool)


def _command_actions(request: ActionRequest) -> RequestedActions:
    command_line = request.command
    assert command_line is not None
    line = parse_line(command_line) if isinstance(command_line, str) else line_from_arguments(command_line)
    executed = executed_commands(line)
    directories, actions = _working_directory(request)
    if not executed.parsed:
        doubt = executed.doubts[0] if executed.doubts else "it cannot be read"
        actions.append(RequestedAction("doubt", doubt, unparsable=True, in_shell_line=True))
    actions += [RequestedAction("doubt", doubt, in_shell_line=True) for doubt in executed.doubts]
    printable = None if exports_variables(executed) else printable_variables(executed)
    for index, command in enumerate(executed.commands):
        cwds = PossibleDirectories.at(directories, executed, command, index)
        actions.append(_command_action(command, cwds, printable, request))
    for redirect, command, index in executed.redirects:
        action = _redirect_action(redirect, PossibleDirectories.at(directories, executed, command, index))
        actions += [action] if action else []
    resolved_paths = [request.directories.resolve(path) for path in request.paths]
    if resolved_paths:
        paths = tuple(resolved for resolved in resolved_paths if resolved)
        unresolved = None in resolved_paths
        actions.append(
            RequestedAction("write", "files it names", paths, unresolved=unresolved, in_shell_line=True)
        )
    if not line.commands and executed.parsed:
        actions.append(
            RequestedAction("doubt", "there is no command in it", unparsable=True, in_shell_line=True)
        )
    return RequestedActions(tuple(actions), directories, executed)


def _working_directory(request: ActionRequest) -> tuple[SessionDirectories, list[RequestedAction]]:
    """Return the directories of the command, and an action if it runs outside the session's folders."""
    directories = request.directories
    if request.cwd is None:
        return directories, []
    resolved = directories.resolve(request.cwd)
    directories = replace(directories, cwd=resolved.real) if resolved else directories
    if resolved is not None and directories.is_inside(resolved.real):
        return directories, []
    paths, unresolved = (resolved,) if resolved else (), resolved is None
    label = f"running in {request.cwd}"
    return directories, [RequestedAction("read", label, paths, unresolved=unresolved, in_shell_line=True)]


_RECURSIVE_PROGRAMS: Final = frozenset(
    ("rm", "mv", "rmdir", "shred", "rsync", "trash", "chmod", "chown", "tar", "zip", "cp")
)


def _command_action(
    command: SimpleCommand,
    cwds: PossibleDirectories,
    printable: PrintableVariables | None,
    request: ActionRequest,
) -> RequestedAction:
    label = " ".join(word.raw for word in command.words)
    label = f"`{label[:80]}...`" if len(label) > 80 else f"`{label}`"
    command = cwds.with_literal_options(command)
    read_use = read_only_use(command, printable) if printable is not None else None
    if read_use is not None:
        files = cwds.resolve_files(read_use.files)
        mentions = cwds.named_paths(read_use.mentions).paths
        untrusted_git = command.name == "git" and any(map(_is_bare_repository, cwds.folders))
        if files is not None and cwds.folders and not untrusted_git:
            folders = [ResolvedPath(folder, folder) for folder in cwds.folders]
            reads_trees = read_use.trees and (not files or any(resolved.real.is_dir() for resolved in files))
            if not reads_trees or request.sandboxed:
                paths = tuple(dict.fromkeys((*files, *mentions, *folders)))
                return RequestedAction(
                    "run", label, paths, command, recursive=reads_trees, only_reads=True, in_shell_line=True
                )
    named_paths = cwds.named_paths(command.arguments)
    scope = scope_of(command, lambda path: _single_path(path, cwds))
    uncertain = (
        command.stdin_variables or not cwds.folders or any(cwds.expand(w) is None for w in command.arguments)
    )
    if is_reading_program(command) and uncertain:
        scope = None  # an "always" would allow it to print any file
    return RequestedAction(
        "run",
        label,
        tuple(named_paths.paths),
        command,
        recursive=command.name in _RECURSIVE_PROGRAMS or read_use is not None,
        open_ended=named_paths.open_ended,
        unresolved=named_paths.unresolved,
        in_shell_line=True,
        grant=Grant("command", scope) if scope else None,
    )


def _is_bare_repository(folder: Path) -> bool:
    """Whether git takes the folder or a parent for a bare repository, with settings of unknown origin."""
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return False
        if (parent / "HEAD").exists() and (parent / "objects").exists() and (parent / "refs").exists():
            return True
    return False


def _single_path(path: str, cwds: PossibleDirectories) -> str | None:
    """Return the real path of a program or script, if it is the same from every possible directory."""
    paths = cwds.resolve([path])
    return str(paths[0].real) if paths and len({resolved.real for resolved in paths}) == 1 else None


def _redirect_action(redirect: Redirect, cwds: PossibleDirectories) -> RequestedAction | None:
    texts = cwds.expand(redirect.target)
    if texts is not None and all(text in HARMLESS_DEVICES for text in texts):
        return None
    if redirect.target.raw.startswith(("<(", ">(")):
        return None  # the command inside is an action of its own
    paths = cwds.resolve(texts) if texts is not None else None
    operation: Operation = "write" if redirect.writes else "read"
    label = f"{'writing' if redirect.writes else 'reading'} {redirect.target.raw[:80]}"
    grant = Grant("path", (operation, str(paths[0].real))) if paths and len(paths) == 1 else None
    return RequestedAction(
        operation, label, tuple(paths or ()), unresolved=paths is None, in_shell_line=True, grant=grant
    )


def _is_secret(resolved: ResolvedPath, directories: SessionDirectories) -> bool:
    if any(resolved.real.is_relative_to(folder) for folder in directories.accord_folders):
        return True
    return is_secret(resolved.real) or is_secret(resolved.path)


def _configures_programs(resolved: ResolvedPath, directories: SessionDirectories) -> bool:
    # Only the part inside the roots counts: a root may itself lie in such a folder.
    return any(
        configures_programs(path.relative_to(root))
        for path in resolved
        for root in directories.roots
        if path.is_relative_to(root)
    )
