"""Permission requests before the policy: what an agent wants to do as rules judge it, and a handler that answers by rules alone.

The kind counts only as the agent itself sent it. Paths, commands and addresses are looked for wherever agents put them: they
can only make a verdict stricter than the kind alone would.
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
_PATHS: Final = (
    "path", "file_path", "filePath", "abs_path", "absPath", "filename", "file", "notebook_path",
    "source", "destination", "old_path", "new_path", "directory", "dir",
)  # fmt: skip
_COMMANDS: Final = ("command", "cmd", "argv", "script")
_FOLDERS: Final = ("cwd", "workdir", "working_directory", "workingDirectory")
_ADDRESSES: Final = ("url", "uri")
_ABOUT_RULES: Final = ("deny rule", "ask rule")
_MOST: Final = 200


def by_policy(policy: Policy) -> PermissionHandler:
    """A permission handler that asks nobody: once what the policy allows, a refusal for everything else."""
    grants = Grants()

    def answer(asked: PermissionRequest) -> PermissionChoice:
        if verdict(policy, request_of(asked, grants), asked).allowed:
            option = asked.option("allow_once")
            if option is not None:
                return option
        return refusal(asked)

    return answer


def refusal(asked: PermissionRequest) -> PermissionChoice:
    """The option that refuses, the milder one first; None where the agent offers none."""
    return asked.option("reject_once") or asked.option("reject_always")


def bounds_of(session: ClientSession) -> SessionDirectories:
    """The folders that the session may use."""
    return SessionDirectories.of(session.cwd, session.additional_directories)


def request_of(asked: PermissionRequest, grants: Grants) -> ActionRequest:
    """The policy's view of a permission request."""
    kind = asked.official_kind
    official = cast(ToolKind, kind) if kind in _KINDS else None
    said = _input(asked)
    command = _command(said)
    return ActionRequest(
        directories=bounds_of(asked.session),
        tool=asked.call.name or "",
        category=category_of(official),
        kind=official,
        paths=tuple(dict.fromkeys(_paths(asked, said)))[:_MOST],
        command=command if official == "execute" else None,
        cwd=_first(said, _FOLDERS) if official == "execute" else None,
        url=_url(said, official),
        grants=grants,
    )


def verdict(policy: Policy, request: ActionRequest, asked: PermissionRequest) -> Decision:
    """What the policy says. A command that hides behind another kind is held against the rules for commands as well."""
    decision = policy.decide(request)
    command = _command(_input(asked))
    if request.command is not None or command is None:
        return decision
    hidden = policy.decide(
        replace(request, category="execute", kind="execute", command=command, paths=(), url=None)
    )
    tightens = hidden.rule == "floor" or hidden.rule.startswith(_ABOUT_RULES)
    if tightens and STRICTNESS[hidden.effect] > STRICTNESS[decision.effect]:
        return hidden
    return decision


def command_in(asked: PermissionRequest) -> str | tuple[str, ...] | None:
    """The command that a request speaks of, whatever its kind."""
    return _command(_input(asked))


def judged(asked: PermissionRequest, request: ActionRequest) -> Iterator[str]:
    """What rules judge about a request, a line each: nobody should agree to it by its title alone."""
    command = command_in(asked)
    command = shlex.join(command) if isinstance(command, tuple) else command
    if command is not None and command != asked.call.label:
        yield from f"$ {command}".split("\n")
    if request.cwd is not None:
        yield f"in {request.cwd}"
    if request.url is not None:
        yield f"address {request.url}"
    named = {item.path for item in asked.call.content if isinstance(item, Diff)}
    yield from (f"file {path}" for path in map(str, request.paths) if path not in named)


def _input(asked: PermissionRequest) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for raw in (asked.call.raw_input, asked.sent.tool_call.raw_input):
        if isinstance(raw, dict):
            found.update(cast("dict[str, Any]", raw))
    return found


def _paths(asked: PermissionRequest, said: Mapping[str, Any]) -> Iterator[str]:
    for call in (asked.call, asked.sent.tool_call):
        yield from (location.path for location in call.locations or ())
        yield from (item.path for item in call.content or () if isinstance(item, Diff))
    yield from _texts(said, _PATHS)
    for name in ("paths", "files"):
        several = said.get(name)
        if isinstance(several, list):
            yield from (item for item in cast("list[Any]", several) if isinstance(item, str) and item)


def _command(said: Mapping[str, Any]) -> str | tuple[str, ...] | None:
    for name in _COMMANDS:
        value = said.get(name)
        if isinstance(value, str) and value.strip():
            args = said.get("args")
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


def _url(said: Mapping[str, Any], kind: ToolKind | None) -> str | None:
    """The address, also where a call of another kind reaches for the web."""
    for text in _texts(said, _ADDRESSES):
        if kind == "fetch" or text.casefold().startswith(("http:", "https:")):
            return text
    return None


def _texts(said: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = said.get(name)
        if isinstance(value, str) and value:
            yield value


def _first(said: Mapping[str, Any], names: Iterable[str]) -> str | None:
    return next(_texts(said, names), None)
