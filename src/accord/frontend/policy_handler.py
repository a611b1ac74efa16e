"""Applies a policy to permission requests.

Rules see only the tool kind that the agent itself sent. Paths, commands and URLs are searched wherever agents
put them; they can only make a decision stricter.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol, TypeGuard, cast, get_args

from accord.client.client_session import ClientSession
from accord.client.permissions import PermissionChoice, PermissionHandler, PermissionRequest
from accord.errors import RpcError
from accord.policy.policy import Policy
from accord.policy.request import STRICTNESS, ActionRequest, Decision, Grants, SessionDirectories, category_of
from accord.safe_text import one_line
from accord.schema import Content, Diff, PermissionOption, TextContent, ToolCallUpdate
from accord.schema.codec import NotJson, parse_json
from accord.schema.content import ToolKind
from accord.session.tool_calls import ToolCallState
from accord.workspace.roots import AnyPath, Folder, Roots

SHELLS: Final = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
"""Programs that run a shell line after `-c`."""
_SHELL_DIRECTORIES: Final = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
_KINDS: Final[frozenset[str]] = frozenset(get_args(ToolKind))
_PATH_KEYS: Final = (
    "path", "file_path", "filePath", "abs_path", "absPath", "filename", "file", "notebook_path",
    "source", "destination", "old_path", "new_path", "directory", "dir",
)  # fmt: skip
_COMMAND_KEYS: Final = ("command", "cmd", "argv", "script")
_CWD_KEYS: Final = ("cwd", "workdir", "working_directory", "workingDirectory")
_URL_KEYS: Final = ("url", "uri")
_STRICT_RULES: Final = ("deny rule", "ask rule")
_READING_KINDS: Final = frozenset(("read", "search", "think", "fetch"))
_MAX_PATHS: Final = 200
_EDITOR_COMMANDS: Final = frozenset((
    "view", "read", "write", "create", "edit", "str_replace", "insert", "append", "undo_edit", "undo",
    "delete",
))  # fmt: skip
"""Values of `command` that are operations of an editor tool, not shell commands, if a path is given too."""
_NEW_TEXT_KEYS: Final = ("content", "file_text", "fileText", "text", "contents")
_EDIT_KEYS: Final = (
    ("old_string", "new_string"), ("oldString", "newString"), ("old_str", "new_str"),
    ("old_text", "new_text"), ("oldText", "newText"), ("before", "after"), ("search", "replace"),
)  # fmt: skip
_MAX_FILE_BYTES: Final = 1024 * 1024


def by_policy(policy: Policy) -> PermissionHandler:
    """A permission handler without a user: allows once what the policy allows, and refuses the rest."""
    grants = Grants()

    def answer(request: PermissionRequest) -> PermissionChoice:
        if decide(policy, action_request(request, grants), request).allowed:
            option = request.option("allow_once")
            if option is not None:
                return option
        return refusal(request)

    return answer


def refusal(request: PermissionRequest) -> PermissionChoice:
    """The option that rejects, `reject_once` if possible; None if the agent offers none."""
    return request.option("reject_once") or request.option("reject_always")


def session_directories(session: ClientSession) -> SessionDirectories:
    """The directories of a session, for the policy."""
    return SessionDirectories.of(session.cwd, session.additional_directories)


def action_request(request: PermissionRequest, grants: Grants) -> ActionRequest:
    """Convert a permission request for the policy."""
    kind = request.official_kind
    official = cast(ToolKind, kind) if kind in _KINDS else None
    arguments = _raw_input(request)
    command = _command(arguments)
    return ActionRequest(
        directories=session_directories(request.session),
        tool=request.call.name or "",
        category=category_of(official),
        kind=official,
        paths=tuple(dict.fromkeys(_paths(request, arguments)))[:_MAX_PATHS],
        command=command if official == "execute" else None,
        cwd=_first(arguments, _CWD_KEYS) if official == "execute" else None,
        url=_url(arguments, official),
        grants=grants,
    )


def decide(policy: Policy, action: ActionRequest, request: PermissionRequest) -> Decision:
    """The decision of the policy.

    A command in a request of another kind is also checked against the rules for commands.
    """
    decision = policy.decide(action)
    command = _command(_raw_input(request))
    if action.command is not None or command is None:
        return decision
    as_command = policy.decide(
        replace(action, category="execute", kind="execute", command=command, paths=(), url=None)
    )
    is_strict = as_command.rule == "floor" or as_command.rule.startswith(_STRICT_RULES)
    if is_strict and STRICTNESS[as_command.effect] > STRICTNESS[decision.effect]:
        return as_command
    return decision


def requested_command(request: PermissionRequest) -> str | tuple[str, ...] | None:
    """The command in a request of any kind."""
    return _command(_raw_input(request))


def quoted_command(request: PermissionRequest) -> str | None:
    """The command that a request without fields quotes at the end of its text: Run command `make test`."""
    texts = [item.content.text for item in request.call.content if is_text(item)]
    if len(texts) != 1:
        return None
    before, quote, rest = texts[0].strip().partition("`")
    command = rest.removesuffix("`")
    # Everything between the first and the last quote: a text with several quoted parts names no command.
    return command if quote and before and command and command != rest else None


_ALLOW_WORDS: Final = frozenset(
    ("accept", "allow", "approve", "continue", "grant", "ok", "permit", "proceed", "run", "yes")
)
_REJECT_WORDS: Final = frozenset((
    "abort", "cancel", "decline", "deny", "disallow", "don't", "never", "no", "not", "refuse", "reject",
    "skip",
))  # fmt: skip
_ALWAYS_WORDS: Final = frozenset(("all", "always", "never", "session"))


def option_label(option: PermissionOption) -> str:
    """The name of an option, which the agent wrote. Adds what it does if the name does not clearly say so."""
    name = option.name or option.option_id
    words = set(re.findall(r"[\w']+", name.casefold().replace("\u2019", "'")))
    is_allow = option.kind.startswith("allow")
    own, other = (_ALLOW_WORDS, _REJECT_WORDS) if is_allow else (_REJECT_WORDS, _ALLOW_WORDS)
    is_always = bool(words & _ALWAYS_WORDS)
    if words & own and not words & other and is_always == option.kind.endswith("always"):
        return name
    return f"{name} ({option.kind.replace('_', ' ')})"


def reason_note(request: PermissionRequest, action: ActionRequest, decision: Decision) -> str | None:
    """Why the user is asked; None if that is the default, or if the question says so already."""
    if decision.rule in ("default ask", "default reads"):
        return None
    reason = decision.reason_beside(action.paths, action.directories.cwd)
    return None if any(reason in text for text in shown_texts(request)) else f"({reason})"


def always_note(request: PermissionRequest, action: ActionRequest, decision: Decision) -> str | None:
    """What an "always" of the agent also allows in this client; None if nothing."""
    if decision.scope is None or all(option.kind != "allow_always" for option in request.options):
        return None
    scope = decision.scope.beside(action.paths, action.directories.cwd)
    return f'("always" also allows {scope} here, until the session ends)'


def requested_folder(request: PermissionRequest) -> str:
    """The folder that a command of a request runs in."""
    return _first(_raw_input(request), _CWD_KEYS) or str(request.session.cwd)


def request_details(request: PermissionRequest, action: ActionRequest) -> Iterator[str]:
    """What the rules see of a request, one line each. Show it: the title alone can mislead."""
    command = requested_command(request) or quoted_command(request)
    if command is not None:
        yield from command_lines(command, requested_folder(request), request.session)
    if action.url is not None:
        yield f"address {action.url}"
    cwd = request.session.cwd
    diff_paths = {os.path.join(cwd, diff.path) for diff in shown_diffs(request)}
    yield from (f"file {path}" for path in action.paths if os.path.join(cwd, path) not in diff_paths)


def tool_call_targets(call: ToolCallUpdate | ToolCallState) -> tuple[str | None, tuple[str, ...]]:
    """The command line and the paths that a tool call names, for logs. Neither is complete."""
    raw_input: Any = call.raw_input
    raw = cast("dict[str, Any]", raw_input) if isinstance(raw_input, dict) else {}
    command = _command(raw)
    paths = (*_call_paths(call), *_texts(raw, _PATH_KEYS))
    return shlex.join(command) if isinstance(command, tuple) else command, tuple(dict.fromkeys(paths))


def command_lines(command: str | tuple[str, ...], folder: str, session: ClientSession) -> Iterator[str]:
    """A command and its folder for the user, one line each."""
    yield from f"$ {_command_text(command, session)}".split("\n")
    yield f"in {folder}"


def _command_text(command: str | tuple[str, ...], session: ClientSession) -> str:
    """The command as a shell line; that of a shell is the line it runs."""
    if isinstance(command, str):
        return command
    if command[1:-1] in (("-c",), ("-lc",)) and is_shell(command[0], session_directories(session)):
        return command[2]
    return shlex.join(command)


def is_shell(program: str, directories: SessionDirectories) -> bool:
    """Whether a program is a shell. A file of that name in the session's directories can be any program."""
    if program in SHELLS or is_system_shell(program):
        return True
    folder, name = os.path.split(program)
    if name not in SHELLS or not os.path.isabs(program):
        return False
    # Also the folder of a link: the link can be changed.
    paths = directories.resolve(program), directories.resolve(folder)
    return all(path is not None and not directories.is_inside(path.real) for path in paths)


def is_system_shell(path: str) -> bool:
    directory, _, program = path.rpartition("/")
    return program in SHELLS and directory in _SHELL_DIRECTORIES


def is_command_title(request: PermissionRequest) -> bool:
    """Whether the title only repeats the command that `request_details` shows."""
    command = requested_command(request)
    text = None if command is None else _command_text(command, request.session)
    return text is not None and request.call.label in (text, one_line(text))


def shown_arguments(request: PermissionRequest, action: ActionRequest) -> dict[str, Any]:
    """The arguments to show, because neither the details nor the content of the request tell what it does."""
    raw = request.call.raw_input
    if not isinstance(raw, dict) or action.paths or action.url or requested_command(request) is not None:
        return {}
    arguments = cast("dict[str, Any]", raw)
    texts = [item.content.text for item in request.call.content if is_text(item)]
    return {} if any(json_members(text) == arguments for text in texts) else arguments


def shown_texts(request: PermissionRequest) -> Iterator[str]:
    """The texts in the content of a request. Arguments as JSON become readable lines."""
    command = requested_command(request)
    lines = command_lines(command, requested_folder(request), request.session) if command is not None else ()
    details = set(lines)
    for item in request.call.content:
        if is_text(item):
            text = item.content.text
            members = json_members(text)
            if members is None:
                if text.strip() not in details and _without_fence(text).removeprefix("$ ") != command:
                    yield text
            elif command is None:
                yield "\n".join(f"{name}: {argument_text(value)}" for name, value in members.items())


def argument_text(value: Any) -> str:
    """One argument of a tool for the user."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


def is_text(item: object) -> TypeGuard["_TextItem"]:
    """Whether a content item is a text."""
    return isinstance(item, Content) and isinstance(item.content, TextContent)


class _TextItem(Protocol):
    content: TextContent


def json_members(text: str) -> dict[str, Any] | None:
    """The members of a JSON object, also in a code block; None for any other text."""
    body = _without_fence(text)
    if not (body.startswith("{") and body.endswith("}")):
        return None
    try:
        value = parse_json(body.encode())
    except (NotJson, UnicodeEncodeError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _without_fence(text: str) -> str:
    body = text.strip()
    first, line_end, rest = body.partition("\n")
    fence = first[: len(first) - len(first.lstrip("`"))]
    if len(fence) >= 3 and line_end and rest.endswith(f"\n{fence}"):
        return rest.removesuffix(f"\n{fence}").strip()
    return body


def shown_diffs(request: PermissionRequest) -> list[Diff]:
    """The changes that a request shows: its diffs, or the change that its arguments describe."""
    diffs = [item for item in request.call.content if isinstance(item, Diff)]
    if diffs or request.official_kind in _READING_KINDS:
        return diffs
    arguments = _raw_input(request)
    path = _first(arguments, _PATH_KEYS[:8])
    if path is None:
        return []
    path = os.path.join(request.session.cwd, path)
    for old, new in _EDIT_KEYS:
        if isinstance(arguments.get(old), str) and isinstance(arguments.get(new), str):
            return [Diff(path, arguments[new], arguments[old])]
    text = _first(arguments, _NEW_TEXT_KEYS)
    return [] if text is None else [Diff(path, text, current_text(request.session.roots, path))]


def current_text(roots: Roots, path: AnyPath) -> str | None:
    """The text of a file before it is replaced, or its size if it is too large; None if there is none."""
    try:
        descriptor = roots.with_parent_folder(path, Folder.open_file)
    except (OSError, RpcError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_MAX_FILE_BYTES + 1)
        size = os.fstat(file.fileno()).st_size
    if len(data) > _MAX_FILE_BYTES:
        return f"({size:,} bytes, too large to show)\n"
    return data.decode(errors="replace")


def _raw_input(request: PermissionRequest) -> Mapping[str, Any]:
    arguments: dict[str, Any] = {}
    for raw in (request.call.raw_input, request.params.tool_call.raw_input):
        if isinstance(raw, dict):
            arguments.update(cast("dict[str, Any]", raw))
    return arguments


def _paths(request: PermissionRequest, arguments: Mapping[str, Any]) -> Iterator[str]:
    for call in (request.call, request.params.tool_call):
        yield from _call_paths(call)
    yield from _texts(arguments, _PATH_KEYS)
    for name in ("paths", "files"):
        values = arguments.get(name)
        if isinstance(values, list):
            yield from (item for item in cast("list[Any]", values) if isinstance(item, str) and item)


def _call_paths(call: ToolCallState | ToolCallUpdate) -> Iterator[str]:
    yield from (location.path for location in call.locations or ())
    yield from (item.path for item in call.content or () if isinstance(item, Diff))


def _command(arguments: Mapping[str, Any]) -> str | tuple[str, ...] | None:
    for name in _COMMAND_KEYS:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            if value in _EDITOR_COMMANDS and _first(arguments, _PATH_KEYS) is not None:
                return None
            args = arguments.get("args")
            words = cast("list[Any]", args) if isinstance(args, list) else []
            if words and all(isinstance(word, str) for word in words):
                return (value, *words)
            return value
        if (
            isinstance(value, list)
            and value
            and all(isinstance(word, str) for word in cast("list[Any]", value))
        ):
            return tuple(cast("list[str]", value))
    return None


def _url(arguments: Mapping[str, Any], kind: ToolKind | None) -> str | None:
    """The URL; a web address counts for a call of any kind."""
    for text in _texts(arguments, _URL_KEYS):
        if kind == "fetch" or text.casefold().startswith(("http:", "https:")):
            return text
    return None


def _texts(arguments: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            yield value


def _first(arguments: Mapping[str, Any], names: Iterable[str]) -> str | None:
    return next(_texts(arguments, names), None)
