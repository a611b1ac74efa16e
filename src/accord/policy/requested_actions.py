"""Splits a request into single actions, and finds the paths that need a permission of their own.

`actions_of` returns one action for each file that is read or written, each program that runs, and each doubt
about a shell line. The policy must allow all of them. `sensitive_paths` names the paths of an action that lie
outside the session's folders, may hold secrets, or configure other programs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from accord.policy.command_paths import HARMLESS_DEVICES, PossibleDirectories
from accord.policy.git_repository import repository_of
from accord.policy.programs.command_scopes import scope_of
from accord.policy.programs.executed_commands import ExecutedCommands, executed_commands
from accord.policy.programs.readonly_commands import (
    PrintableVariables,
    ReadOnlyUse,
    exports_variables,
    is_reading_program,
    printable_variables,
    read_only_use,
)
from accord.policy.request import ActionRequest, Grant, ResolvedPath, SessionDirectories, host_of
from accord.policy.secret_files import configures_programs, is_secret
from accord.policy.shell.command_line import line_from_arguments, parse_line
from accord.policy.shell.syntax import Redirect, SimpleCommand

if TYPE_CHECKING:
    from accord.policy.programs.safe_git import GuardedLine

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
    guarded_folders: tuple[Path, ...] = ()
    """Where git may run, if it only reads because `guard_line` prepares it."""


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
            case "secret" if _is_git_config(real):
                return f"{path}{target} may hold logins, and decides what git runs"
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
        readable = not writes and directories.is_readable(resolved.real)
        if _is_secret(resolved, directories, readable=readable):
            yield SensitivePath("secret", resolved)
        if not directories.is_inside(resolved.real) and not readable:
            yield SensitivePath("outside", resolved)
        elif writes and _configures_programs(resolved, directories):
            yield SensitivePath("steering", resolved)


def _tool_actions(request: ActionRequest) -> Iterator[RequestedAction]:
    name = request.tool or request.kind or ""
    # "Always" for one unnamed tool of the kind `other` must not allow every other one.
    tool = Grant("tool", (name,)) if request.tool or request.kind not in (None, "other") else None
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
        in_shell = index not in executed.nested
        actions.append(_command_action(command, cwds, printable, request, in_shell=in_shell))
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


_MAX_SHOWN_SECRETS: Final = 20
_RECURSIVE_PROGRAMS: Final = frozenset(
    ("rm", "mv", "rmdir", "shred", "rsync", "trash", "chmod", "chown", "tar", "zip", "cp")
)


def _command_action(
    command: SimpleCommand,
    cwds: PossibleDirectories,
    printable: PrintableVariables | None,
    request: ActionRequest,
    *,
    in_shell: bool,
) -> RequestedAction:
    """Return the action of one command. `in_shell` says whether the shell of the line itself starts it."""
    label = " ".join(word.raw for word in command.words)
    label = f"`{label[:80]}...`" if len(label) > 80 else f"`{label}`"
    command = cwds.with_literal_options(command)
    read_use = read_only_use(command, printable) if printable is not None else None
    if read_use is not None:
        files = cwds.resolve_files(read_use.files)
        mentions = cwds.named_paths(read_use.mentions).paths
        guarded = _is_guarded(command) and in_shell
        safe = command.name != "git" or _is_safe_git(read_use, cwds, guarded=guarded)
        if files is not None and cwds.folders and safe:
            folders = [ResolvedPath(folder, folder) for folder in cwds.folders]
            reads_trees = read_use.trees and (not files or any(resolved.real.is_dir() for resolved in files))
            if not reads_trees or request.sandboxed:
                paths = tuple(dict.fromkeys((*files, *mentions, *folders)))
                return RequestedAction(
                    "run",
                    label,
                    paths,
                    command,
                    recursive=reads_trees,
                    only_reads=True,
                    in_shell_line=True,
                    guarded_folders=cwds.folders if command.name == "git" and guarded else (),
                )
    named_paths = cwds.named_paths(command.arguments)
    git_files = (*_written_git_config(command, cwds), *_shown_secrets(command, cwds))
    scope = scope_of(command, lambda path: _single_path(path, cwds))
    uncertain = (
        command.stdin_variables or not cwds.folders or any(cwds.expand(w) is None for w in command.arguments)
    )
    if is_reading_program(command) and uncertain:
        scope = None  # an "always" would allow it to print any file
    return RequestedAction(
        "run",
        label,
        (*git_files, *named_paths.paths),
        command,
        recursive=command.name in _RECURSIVE_PROGRAMS or read_use is not None,
        open_ended=named_paths.open_ended,
        unresolved=named_paths.unresolved,
        in_shell_line=True,
        grant=Grant("command", scope) if scope else None,
    )


def guarded_line(request: ActionRequest) -> "GuardedLine | None":
    """Return the line of a request with its read-only git commands made safe; None without such commands.

    Reads the disk and may start git.
    """
    if not isinstance(request.command, str) or "git" not in request.command:
        return None
    actions = _command_actions(request).actions
    folders = dict.fromkeys(folder for action in actions for folder in action.guarded_folders)
    if not folders:
        return None
    from accord.policy.programs.safe_git import guard_line

    # A command that names a secret, or that shows one in another way, runs only if the user agreed.
    agreed = any(_names_secret(action, request) or _is_unguarded(action) for action in actions)
    return guard_line(request.command, folders, exclude_secrets=not agreed)


def _names_secret(action: RequestedAction, request: ActionRequest) -> bool:
    if action.command is None or action.command.name != "git":
        return False
    return any(sensitive.danger == "secret" for sensitive in sensitive_paths(action, request.directories))


def _is_unguarded(action: RequestedAction) -> bool:
    return action.command is not None and not action.only_reads and _shows_content(action.command)


def _is_guarded(command: SimpleCommand) -> bool:
    """Whether the shell uses its function for the command, not a program of that name."""
    return command.program == "git" and not command.via


def _is_safe_git(use: ReadOnlyUse, cwds: PossibleDirectories, *, guarded: bool) -> bool:
    """Whether git runs no program of the project and shows no secret."""
    from accord.policy.programs.safe_git import config_overrides, names_content, names_programs

    if any(names_content(folder, use.objects) for folder in cwds.folders):
        return False
    if not guarded:
        return not use.shows_tracked and not any(map(names_programs, cwds.folders))
    return all(config_overrides(folder) is not None for folder in cwds.folders)


def _shown_secrets(command: SimpleCommand, cwds: PossibleDirectories) -> tuple[ResolvedPath, ...]:
    """Return the tracked secrets that a git command may show, if they cannot be left out."""
    if not _shows_content(command):
        return ()
    from accord.policy.programs.safe_git import tracked_secrets

    return tuple(
        ResolvedPath(path, path)
        for folder in cwds.folders or (cwds.directories.cwd,)
        for path in tracked_secrets(folder)[:_MAX_SHOWN_SECRETS]
    )


def _shows_content(command: SimpleCommand) -> bool:
    if command.name != "git" and not command.name.startswith("git-"):
        return False
    from accord.policy.programs.git_commands import CONTENT_COMMANDS, subcommand_of

    subcommand, words = subcommand_of(command)
    return subcommand in CONTENT_COMMANDS and (
        subcommand != "stash" or any(word.text == "show" for word in words)
    )


def _written_git_config(command: SimpleCommand, cwds: PossibleDirectories) -> tuple[ResolvedPath, ...]:
    """Return the configuration files that a `git config` writes. They decide which programs git runs."""
    if command.name not in ("git", "git-config"):
        return ()
    from accord.policy.programs.git_commands import written_config

    directories = cwds.directories
    match written_config(command):
        case None:
            return ()
        case "global":
            files = [directories.home / ".gitconfig", directories.home / ".config" / "git" / "config"]
        case "system":
            files = [Path("/etc/gitconfig")]
        case _:
            folders = cwds.folders or (directories.cwd,)
            files = [file for folder in folders for file in _config_files(folder)]
    resolved = [directories.resolve(file) for file in files]
    return tuple(dict.fromkeys(path for path in resolved if path))


def _config_files(folder: Path) -> tuple[Path, ...]:
    repository = repository_of(folder)
    return repository.config_files if repository else (folder / ".git" / "config",)


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


def _is_git_config(path: Path) -> bool:
    return path.name in (".gitconfig", "gitconfig") or (
        path.name == "config" and path.parent.name in (".git", "git")
    )


def _is_secret(resolved: ResolvedPath, directories: SessionDirectories, *, readable: bool) -> bool:
    if not readable and any(resolved.real.is_relative_to(folder) for folder in directories.accord_folders):
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
