"""MCP servers as a file describes them, and as they are sent to an agent."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from accord.client.servers.environment import expand
from accord.client.servers.forms import BadServers
from accord.client.servers.values import read_env, read_text, read_texts
from accord.schema import EnvVariable, HttpHeader, McpServer, McpServerHttp, McpServerSse, McpServerStdio

_MCP_STDIO: Final = frozenset(("name", "type", "command", "args", "env"))
_MCP_REMOTE: Final = frozenset(("name", "type", "url", "headers"))


@dataclass(frozen=True, slots=True, kw_only=True)
class McpEntry:
    """An MCP server as a file describes it."""

    name: str
    place: str
    """The file and the key where it stands."""
    kind: Literal["stdio", "http", "sse"] = "stdio"
    command: tuple[str, ...] = ()
    url: str = ""
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its environment, or the headers to send."""

    def resolved(self, environ: Mapping[str, str]) -> McpServer:
        """As it is sent to an agent, references resolved. Raises UsageError."""
        part = "env" if self.kind == "stdio" else "headers"
        values = {
            name: expand(value, environ, f"{self.place}.{part}.{name}") for name, value in self.values.items()
        }
        if self.kind == "stdio":
            variables = [EnvVariable(name, value) for name, value in values.items()]
            return McpServerStdio(self.name, self.command[0], list(self.command[1:]), variables)
        headers = [HttpHeader(name, value) for name, value in values.items()]
        kind = McpServerHttp if self.kind == "http" else McpServerSse
        return kind(self.name, self.url, headers)


def read_mcp_servers(value: Any, file: str, key: str, folder: str) -> tuple[McpEntry, ...]:
    """MCP servers as an object by name, as most tools have it, or as a list, as in the protocol. Raises BadServers."""
    entries: dict[str, McpEntry] = {}
    if value is None:
        return ()
    if isinstance(value, dict):
        named = [(name, f"{key}.{name}", said) for name, said in cast("dict[str, Any]", value).items()]
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        named = [(_named(said), f"{key}[{number}]", said) for number, said in enumerate(items)]
    else:
        raise BadServers(file, key, "it must be an object by name, or a list")
    for name, place, said in named:
        if not name or not name.isprintable() or name in entries:
            raise BadServers(file, place, "an MCP server needs a name of its own")
        if not isinstance(said, dict):
            raise BadServers(file, place, "it must be an object with `command` or `url`")
        entries[name] = _mcp(name, place, cast("dict[str, Any]", said), file, folder)
    return tuple(entries.values())


def _mcp(name: str, place: str, said: dict[str, Any], file: str, folder: str) -> McpEntry:
    kind = said.get("type", "http" if "url" in said else "stdio")
    kind = (
        {"streamable-http": "http", "streamableHttp": "http", "local": "stdio"}.get(kind, kind)
        if isinstance(kind, str)
        else kind
    )
    if kind not in ("stdio", "http", "sse"):
        raise BadServers(file, f"{place}.type", f"{kind!r} is none of stdio, http, sse")
    keys = _MCP_STDIO if kind == "stdio" else _MCP_REMOTE
    for key in said:
        if key not in keys:
            raise BadServers(
                file,
                f"{place}.{key}",
                f"there is no such key for {kind}; there are: {', '.join(sorted(keys))}",
            )
    if kind == "stdio":
        program = os.path.expanduser(read_text(said.get("command"), file, f"{place}.command", "the program"))
        if not os.path.isabs(program) and os.path.basename(program) != program:
            program = os.path.normpath(os.path.join(folder, program))
        command = (program, *read_texts(said.get("args"), file, f"{place}.args"))
        values = read_env(said.get("env"), file, f"{place}.env")
        return McpEntry(name=name, place=f"{file}: {place}", command=command, values=_set(values))
    url = read_text(said.get("url"), file, f"{place}.url", "an address")
    if not url.startswith(("http://", "https://")):
        raise BadServers(file, f"{place}.url", f"{url!r} is no address: it begins with http:// or https://")
    values = read_env(said.get("headers"), file, f"{place}.headers")
    return McpEntry(name=name, place=f"{file}: {place}", kind=kind, url=url, values=_set(values))


def _set(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _named(said: Any) -> str:
    name = cast("dict[str, Any]", said).get("name") if isinstance(said, dict) else None
    return name if isinstance(name, str) else ""
