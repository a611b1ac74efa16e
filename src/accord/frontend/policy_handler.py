"""Applies a policy to permission requests.

Rules see only the tool kind that the agent itself sent. Paths, commands and URLs are searched wherever agents
put them; they can only make a decision stricter.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast, get_args

from accord.client.client_session import ClientSession
from accord.client.permissions import PermissionChoice, PermissionHandler, PermissionRequest
from accord.policy.policy import Policy
from accord.policy.request import STRICTNESS, ActionRequest, Decision, Grants, SessionDirectories, category_of
from accord.schema import Diff
from accord.schema.content import ToolKind

_KINDS: Final[frozenset[str]] = frozenset(get_args(ToolKind))
_PATH_KEYS: Final = (
    "path", "file_path", "filePath", "abs_path", "absPath", "filename", "file", "notebook_path",
    "source", "destination", "old_path", "new_path", "directory", "dir",
)  # fmt: skip
_COMMAND_KEYS: Final = ("command", "cmd", "argv", "script")
_CWD_KEYS: Final = ("cwd", "workdir", "working_directory", "workingDirectory")
_URL_KEYS: Final = ("url", "uri")
_STRICT_RULES: Final = ("deny rule", "ask rule")
_MAX_PATHS: Final = 200


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


def request_details(request: PermissionRequest, action: ActionRequest) -> Iterator[str]:
    """What the rules see of a request, one line each. Show it: the title alone can mislead."""
    command = requested_command(request)
    command = shlex.join(command) if isinstance(command, tuple) else command
    if command is not None and command != request.call.label:
        yield from f"$ {command}".split("\n")
    if action.cwd is not None:
        yield f"in {action.cwd}"
    if action.url is not None:
        yield f"address {action.url}"
    diff_paths = {item.path for item in request.call.content if isinstance(item, Diff)}
    yield from (f"file {path}" for path in map(str, action.paths) if path not in diff_paths)


def _raw_input(request: PermissionRequest) -> Mapping[str, Any]:
    arguments: dict[str, Any] = {}
    for raw in (request.call.raw_input, request.params.tool_call.raw_input):
        if isinstance(raw, dict):
            arguments.update(cast("dict[str, Any]", raw))
    return arguments


def _paths(request: PermissionRequest, arguments: Mapping[str, Any]) -> Iterator[str]:
    for call in (request.call, request.params.tool_call):
        yield from (location.path for location in call.locations or ())
        yield from (item.path for item in call.content or () if isinstance(item, Diff))
    yield from _texts(arguments, _PATH_KEYS)
    for name in ("paths", "files"):
        values = arguments.get(name)
        if isinstance(values, list):
            yield from (item for item in cast("list[Any]", values) if isinstance(item, str) and item)


def _command(arguments: Mapping[str, Any]) -> str | tuple[str, ...] | None:
    for name in _COMMAND_KEYS:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
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
