"""MCP servers that Accord itself knows: of the user's config, and of a project once it is trusted.

They are used beside those that the client names. A server of the client with the same name comes first.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from accord.coder.permissions.project_files import ProjectFile, read_bounded
from accord.coder.user_config import mcp_server_tables
from accord.errors import UsageError
from accord.policy.sandbox.command_environment import without_credentials
from accord.safe_text import one_line
from accord.schema.mcp import McpServer

SERVERS_FILE: Final = "mcp.json"
"""The user's file in the config folder, besides `[mcp.NAME]` in `config.toml`."""
_SWITCHES: Final = ("enabled", "disabled")
_REFERENCES_IN: Final = ("command", "args", "url")
"""Members besides `env` and `headers` in which `${NAME}` stands for a variable."""


def user_servers(
    config: Mapping[str, Any], config_file: Path | None, folder: Path
) -> tuple[list[McpServer], list[str]]:
    """The servers of the user, and one line for each file that cannot be used. Reads the disk."""
    sources: list[tuple[Any, str]] = [(mcp_server_tables(config), str(config_file or "config.toml"))]
    problems: list[str] = []
    file = folder / SERVERS_FILE
    try:
        sources.append((_servers_in(read_bounded(file), str(file)), str(file)))
    except FileNotFoundError:
        pass
    except OSError as error:
        problems.append(f"{file}: cannot be read ({error.strerror})")
    except UsageError as error:
        problems.append(str(error))
    return _read(sources, str(folder), os.environ, problems), problems


def project_servers(files: Iterable[ProjectFile], cwd: str) -> tuple[list[McpServer], list[str]]:
    """The servers of trusted project files. They get none of the user's credentials."""
    sources: list[tuple[Any, str]] = []
    problems: list[str] = []
    for file in files:
        try:
            sources.append((_servers_in(file.content, file.name), file.name))
        except UsageError as error:
            problems.append(str(error))
    return _read(sources, cwd, without_credentials(os.environ), problems), problems


def _servers_in(content: bytes, name: str) -> Any:
    try:
        value: Any = msgspec.json.decode(content)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{name}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{name}: not an object")
    return cast(dict[str, Any], value).get("mcpServers", {})


def _read(
    sources: Iterable[tuple[Any, str]], folder: str, environ: Mapping[str, str], problems: list[str]
) -> list[McpServer]:
    """The servers that can be used. An entry that cannot is a problem, and the others count."""
    servers: dict[str, McpServer] = {}
    for value, source in sources:
        if not isinstance(value, dict):
            problems.append(f"{source}: mcpServers: it must be an object with server names as keys")
            continue
        for name, members in cast(dict[str, Any], value).items():
            try:
                server = _server(name, members, source, folder, environ)
            except UsageError as error:
                problems.append(one_line(str(error), 500))
            else:
                if server is not None:
                    servers.setdefault(server.name, server)
    return list(servers.values())


def _server(
    name: str, members: Any, source: str, folder: str, environ: Mapping[str, str]
) -> McpServer | None:
    """One server with resolved references; None if it is switched off. Raises UsageError."""
    # Not at the top: a thread imports this module, and the client library imports its own modules in a cycle.
    from accord.frontend.agent_config.agent_entry import MCP_KEYS, read_mcp_servers

    is_ours = source.endswith(".toml")
    key = "mcp" if is_ours else "mcpServers"
    if isinstance(members, dict):
        found = cast(dict[str, Any], members)
        if found.get("disabled") is True or found.get("enabled") is False:
            return None
        place = f"{source}: {key}.{name}"
        if "cwd" in found:
            raise UsageError(f"{place}.cwd: servers start in the session's folder; use an absolute path")
        members = {
            # Other programs have settings of their own in these files.
            member: _expanded(value, environ, f"{place}.{member}") if member in _REFERENCES_IN else value
            for member, value in found.items()
            if member not in _SWITCHES and (is_ours or member in MCP_KEYS)
        }
    (entry,) = read_mcp_servers({name: members}, source, key, folder)
    return entry.resolved(environ)


def _expanded(value: Any, environ: Mapping[str, str], place: str) -> Any:
    """A text, or the texts of a list, with resolved references. Raises UsageError."""
    from accord.frontend.agent_config.agent_environment import expand_references

    if isinstance(value, list):
        return [_expanded(item, environ, place) for item in cast(list[Any], value)]
    return expand_references(value, environ, place) if isinstance(value, str) else value
