"""Checks the parameters of a client's request against the rights of its token.

A token may not choose what the agent starts or connects to (MCP servers, a vendor's start options) unless it
has that right, and may not name folders beyond its own, wherever in the parameters they are.
"""

import os
import re
from os.path import isabs
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from msgspec import Raw

from accord.errors import InvalidParams, RpcError
from accord.gateway.access.access_tokens import NOT_ALLOWED, TokenRights
from accord.gateway.upstream import read_untyped
from accord.schema.codec import encode
from accord.schema.methods import notification, request

_OPENING_METHODS: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
_TRACE_CONTEXT: Final = frozenset({"traceparent", "tracestate", "baggage"})
"""The members of `_meta` that ACP reserves."""
_PATH_NAME: Final = re.compile("path|folder|dir|cwd|root|workspace|worktree|file|uri|location")
_TEXT_NAMES: Final = frozenset(
    {"text", "prompt", "message", "content", "query", "title", "description", "instructions"}
)
"""Members that hold text for people or models. It may start with a slash, as a slash command does."""
_PROGRAM_NAMES: Final = frozenset({"command", "cmd", "program", "executable"})
_PROGRAM_OPTIONS: Final = frozenset({"args", "arguments", "argv", "env", "envs", "environment"})
_SERVER_TYPES: Final = frozenset({"stdio", "sse", "http", "streamable_http", "streamablehttp"})
"""How vendors name the transports of MCP servers."""
_ABSOLUTE: Final = re.compile(r"[/\\~]|[A-Za-z]:[/\\]")


def check_folders(rights: TokenRights, *folders: str) -> None:
    """Raise an error for a folder that is not absolute or that the token does not cover."""
    for folder in folders:
        if not isabs(folder):
            raise InvalidParams(f"the folder {folder!r} is not an absolute path")
        if not rights.may_enter(folder):
            raise _not_covered(folder)


def checked_params(rights: TokenRights, method: str, params: Raw | None, cwd: str | None) -> Raw | None:
    """Return the parameters that may reach the agent. Raises RpcError.

    `cwd` is the working directory of the session that the request is about. For a restricted token the
    parameters are encoded again: agents must not read a repeated member differently than the gateway.
    """
    if params is None or (rights.folders is None and rights.may_add_mcp_servers):
        return params
    value = read_untyped(params).value
    is_vendor = request("agent", method) is None and notification("agent", method) is None
    _ParameterCheck(rights, method in _OPENING_METHODS, cwd).check(value, "", is_vendor)
    return Raw(encode(value))


class _ParameterCheck:
    """Walks through the parameters of one request."""

    def __init__(self, rights: TokenRights, opens_session: bool, cwd: str | None) -> None:
        self._rights = rights
        self._opens_session = opens_session
        self._cwd = cwd

    def check(self, value: Any, name: str, is_vendor: bool) -> None:
        """Check a value. `name` is the simplified name of the member that holds it; `is_vendor` tells that
        ACP does not define it.
        """
        if isinstance(value, dict):
            self._check_members(cast(dict[str, Any], value), name, is_vendor)
        elif isinstance(value, list):
            for item in cast(list[Any], value):
                self.check(item, name, is_vendor)
        elif isinstance(value, str) and is_vendor and self._rights.folders is not None:
            self._check_path(value, name)

    def _check_members(self, members: dict[str, Any], holder: str, is_vendor: bool) -> None:
        names: set[str] = set()
        for name, value in members.items():
            if is_vendor and self._rights.folders is not None:
                self._check_path(name, holder)  # of an object with files by their paths
            simplified = name.casefold().replace("_", "").replace("-", "")
            if simplified in names:
                raise InvalidParams(f"Invalid params: {name!r} is given twice, in different spellings")
            names.add(simplified)
            if simplified == "mcpservers" and not self._rights.may_add_mcp_servers:
                _check_servers(value)
            if name == "_meta" and self._opens_session and not self._rights.may_add_mcp_servers:
                _check_start_options(value)
            self.check(value, simplified, is_vendor or name == "_meta")
        if is_vendor and not self._rights.may_add_mcp_servers:
            _check_program(members, names)

    def _check_path(self, text: str, name: str) -> None:
        if name in _TEXT_NAMES:
            return
        path = text
        if text[:5].casefold() == "file:":
            path = unquote(urlsplit(text).path) or "/"
        elif "://" in text:
            return
        if not _ABSOLUTE.match(path):
            leads_up = ".." in re.split(r"[/\\]", path)
            if not leads_up and (self._cwd is None or not _PATH_NAME.search(name)):
                return
            if self._cwd is not None:
                path = os.path.join(self._cwd, path)
        if not self._rights.may_enter(os.path.expanduser(path)):
            raise _not_covered(text)


def _not_covered(folder: str) -> RpcError:
    return RpcError(f"this token does not cover the folder {folder!r}", code=NOT_ALLOWED)


_HOW_TO_ALLOW: Final = "`accord serve token new --allow-mcp` creates a token that may"


def _check_servers(value: Any) -> None:
    """Refuse MCP servers, except those that the client itself provides over its connection."""
    if isinstance(value, dict):
        value = list(cast(dict[str, Any], value).values())
    for server in cast(list[Any], value) if isinstance(value, list) else [value]:
        if server is None:
            continue
        members = cast(dict[str, Any], server) if isinstance(server, dict) else {}
        if members.get("type") != "acp" or "command" in members or "url" in members:
            raise RpcError(
                f"this token may not add MCP servers ({str(members.get('name', ''))[:100]!r}): the agent "
                "would start their commands or connect to their addresses as the user of the gateway; "
                + _HOW_TO_ALLOW,
                code=NOT_ALLOWED,
            )


def _check_program(members: dict[str, Any], names: set[str]) -> None:
    """Refuse an object of a vendor's method that describes a program or a server, as goose's extensions do.

    `names` are the simplified names of the members.
    """
    starts_program = not names.isdisjoint(_PROGRAM_NAMES) and not names.isdisjoint(_PROGRAM_OPTIONS)
    if starts_program or str(members.get("type")).casefold().replace("-", "_") in _SERVER_TYPES:
        raise RpcError(
            "this token may not name a program or an MCP server in a vendor's method, because the agent "
            f"would start it as the user of the gateway; {_HOW_TO_ALLOW}",
            code=NOT_ALLOWED,
        )


def _check_start_options(meta: Any) -> None:
    """Refuse a vendor's options for the start of a session: some name programs to run."""
    if isinstance(meta, dict):
        for name, value in cast(dict[str, Any], meta).items():
            if name not in _TRACE_CONTEXT and isinstance(value, dict | list):
                raise RpcError(
                    f"this token may not pass the options `_meta.{name[:100]}` to the agent, because they "
                    f"can name programs to start; {_HOW_TO_ALLOW}",
                    code=NOT_ALLOWED,
                )
