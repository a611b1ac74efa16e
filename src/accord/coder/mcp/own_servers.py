"""MCP servers that Accord itself knows: of the user's config, and of a project once it is trusted.

They are used beside those that the client names. A server of the client with the same name comes first.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from accord.coder.permissions.project_files import ProjectFile
from accord.coder.user_config import mcp_server_tables
from accord.errors import UsageError
from accord.policy.sandbox.command_environment import without_credentials
from accord.schema.mcp import McpServer

SERVERS_FILE: Final = "mcp.json"
"""The user's file in the config folder, besides `[mcp.NAME]` in `config.toml`."""


def user_servers(
    config: Mapping[str, Any], config_file: Path | None, folder: Path
) -> tuple[list[McpServer], list[str]]:
    """The servers of the user, and one line for each file that cannot be used. Reads the disk."""
    sources: list[tuple[Any, str]] = [(mcp_server_tables(config), str(config_file or "config.toml"))]
    problems: list[str] = []
    file = folder / SERVERS_FILE
    try:
        sources.append((_servers_in(file.read_bytes(), str(file)), str(file)))
    except FileNotFoundError:
        pass
    except OSError as error:
        problems.append(f"{file}: cannot be read ({error.strerror})")
    except UsageError as error:
        problems.append(str(error))
    return _read(sources, str(folder), os.environ, problems)


def project_servers(files: Iterable[ProjectFile], cwd: str) -> tuple[list[McpServer], list[str]]:
    """The servers of trusted project files. They get none of the user's credentials."""
    sources: list[tuple[Any, str]] = []
    problems: list[str] = []
    for file in files:
        try:
            sources.append((_servers_in(file.content, file.name), file.name))
        except UsageError as error:
            problems.append(str(error))
    return _read(sources, cwd, without_credentials(os.environ), problems)


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
) -> tuple[list[McpServer], list[str]]:
    # Not at the top: a thread imports this module, and the client library imports its own modules in a cycle.
    from accord.frontend.agent_config.agent_entry import read_mcp_servers

    servers: dict[str, McpServer] = {}
    for value, source in sources:
        try:
            entries = read_mcp_servers(
                value, source, "mcp" if source.endswith(".toml") else "mcpServers", folder
            )
        except UsageError as error:
            problems.append(str(error))
            continue
        for entry in entries:
            try:
                servers.setdefault(entry.name, entry.resolved(environ))
            except UsageError as error:
                problems.append(str(error))
    return list(servers.values()), problems
