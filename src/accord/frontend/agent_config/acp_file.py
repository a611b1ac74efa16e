"""`acp.json`: find, read and check it; add and remove agents.

Errors name the file, the key and the reason. A change keeps the format and everything else in the file.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from accord.client.client_options import ProtocolChoice
from accord.errors import UsageError
from accord.frontend.agent_config.agent_entry import ConfiguredAgent, McpEntry, Origin, read_mcp_servers
from accord.frontend.agent_config.agent_list_formats import AgentListEntry, AgentListFile, read_agent_list
from accord.frontend.agent_config.config_values import (
    BadAgentConfig,
    read_count,
    read_env,
    read_json,
    read_text,
    read_texts,
)
from accord.frontend.agent_config.jsonc import (
    append_item,
    edit_lock,
    read_bytes,
    remove_member,
    replace_file,
    set_member,
)
from accord.frontend.known_agents import BUILT_IN, canonical_name, find_known_agent
from accord.paths import config_dir
from accord.policy.rules import BadRules, PermissionDefault, Rules, read_permissions
from accord.safe_text import visible

FILE_NAME: Final = "acp.json"
_MAX_BYTES: Final = 1024 * 1024

_MAX_RESTARTS: Final = 100
_MAX_MILLISECONDS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class AgentConfigFile:
    """The content of an `acp.json` file."""

    path: Path
    content: bytes
    """The bytes that were read, so that the trusted and the used content are the same."""
    agent_list: AgentListFile
    agents: tuple[ConfiguredAgent, ...]
    mcp: tuple[McpEntry, ...] = ()
    """MCP servers for the sessions of every agent."""

    def contains(self, name: str) -> bool:
        return any(canonical_name(agent.name) == canonical_name(name) for agent in self.agents)


def user_file() -> Path:
    """The user's file. It may not exist."""
    return config_dir() / FILE_NAME


def project_file(cwd: Path) -> Path | None:
    """The project's file: in this directory or a parent, up to the root of the git repository."""
    folders = [cwd, *cwd.parents]
    root = next((number for number, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    candidates = (folder / FILE_NAME for folder in folders[: root + 1])
    return next((path for path in candidates if os.path.lexists(path)), None)


def read_file(path: Path, origin: Origin) -> AgentConfigFile | None:
    """Read a file; None if it does not exist. Raises BadAgentConfig or BadRules."""
    try:
        content = read_bytes(path, max_bytes=_MAX_BYTES)
    except UsageError as error:
        raise BadAgentConfig("", "", str(error)) from None
    if content is None and os.path.islink(path):
        raise BadAgentConfig(str(path), "", "it is a link to a file that does not exist")
    return None if content is None else read_content(path, content, origin)


def read_content(path: Path, content: bytes, origin: Origin) -> AgentConfigFile:
    """Read the content of a file. Raises BadAgentConfig or BadRules."""
    file = str(path)
    agent_list = read_agent_list(read_json(content, file), file)
    folder = str(path.absolute().parent)
    agents = tuple(_EntryReader(file, folder, entry, origin).read() for entry in agent_list.entries)
    mcp = read_mcp_servers(agent_list.mcp_servers, file, "mcpServers", folder)
    return AgentConfigFile(path, content, agent_list, agents, mcp)


class _EntryReader:
    """Reads one entry of a file."""

    def __init__(self, file: str, folder: str, entry: AgentListEntry, origin: Origin) -> None:
        self.file = file
        self.folder = folder
        self.entry = entry
        self.origin: Origin = origin

    def read(self) -> ConfiguredAgent:
        members, name = self.entry.members, self.entry.name
        if self._is_built_in:
            name = BUILT_IN
        rules = self._permissions(members.get("permissions"))
        from_project = self.origin == "project"
        key = self.entry.key
        return ConfiguredAgent(
            name=name,
            origin=self.origin,
            config_location=f"{self.file}: {key}",
            folder=self.folder,
            command=self._command(),
            env=read_env(members.get("env"), self.file, f"{key}.env", removable=True),
            cwd=self._cwd(members.get("cwd")),
            timeout=self._seconds("timeoutMs"),
            startup=self._seconds("startupTimeoutMs"),
            cancel=self._seconds("cancelTimeoutMs"),
            max_restarts=self._count("maxRestarts", 0, _MAX_RESTARTS),
            protocol=self._protocol(members.get("protocol")),
            permissions=None if from_project else rules,
            project_permissions=rules if from_project else None,
            unattended=cast("PermissionDefault | None", self.entry.unattended),
            mcp=read_mcp_servers(members.get("mcpServers"), self.file, f"{key}.mcpServers", self.folder),
            description=self._description(members.get("description")),
        )

    @property
    def _is_built_in(self) -> bool:
        return self.entry.name.casefold() == BUILT_IN

    def _command(self) -> tuple[str, ...]:
        command, args = self.entry.members.get("command"), self.entry.members.get("args")
        if command is None:
            if find_known_agent(self.entry.name) is None and not self._is_built_in:
                raise self._bad(
                    "command", "it is missing; only a known agent (`accord agents list`) needs no command"
                )
            if args:
                raise self._bad("args", "arguments need a `command`")
            return ()
        return (
            read_text(command, self.file, f"{self.entry.key}.command", "the program"),
            *read_texts(args, self.file, f"{self.entry.key}.args"),
        )

    def _cwd(self, value: Any) -> str | None:
        if value is None:
            return None
        folder = os.path.expanduser(read_text(value, self.file, f"{self.entry.key}.cwd", "a folder"))
        return os.path.normpath(os.path.join(self.folder, folder))

    def _description(self, value: Any) -> str:
        return "" if value is None else read_text(value, self.file, f"{self.entry.key}.description", None)

    def _seconds(self, key: str) -> float | None:
        milliseconds = self._count(key, 1, _MAX_MILLISECONDS)
        return None if milliseconds is None else milliseconds / 1000

    def _count(self, key: str, minimum: int, maximum: int) -> int | None:
        return read_count(self.entry.members.get(key), self.file, f"{self.entry.key}.{key}", minimum, maximum)

    def _protocol(self, value: Any) -> ProtocolChoice | None:
        if value is None or value == "auto" or (type(value) is int and value in (1, 2)):
            return value
        raise self._bad("protocol", 'it must be 1, 2 or "auto"')

    def _permissions(self, value: Any) -> Rules | None:
        if value is None:
            return None
        try:
            return read_permissions(value, file=self.file, key=f"{self.entry.key}.permissions")
        except BadRules as error:
            raise BadRules(visible(str(error))) from None

    def _bad(self, key: str, reason: str) -> BadAgentConfig:
        return BadAgentConfig(self.file, f"{self.entry.key}.{key}", reason)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The file before and after a change."""

    before: AgentConfigFile | None
    after: AgentConfigFile


def add(
    path: Path,
    origin: Origin,
    name: str,
    entry: dict[str, Any],
    *,
    default: bool = False,
    replace: bool = False,
) -> ConfigChange:
    """Add an agent to the file; creates the file if needed.

    Raises UsageError if the name is taken, or BadAgentConfig.
    """
    with edit_lock(path, private=origin == "user"):
        return _add(path, origin, name, entry, default, replace)


def _add(
    path: Path, origin: Origin, name: str, entry: dict[str, Any], default: bool, replace: bool
) -> ConfigChange:
    file = read_file(path, origin)
    text = _text(file)
    existing = None if file is None else _entry(file, name)
    if existing is not None and not replace:
        raise UsageError(
            f"{path}: {existing.key}: {existing.name!r} already exists; use --replace to replace it"
        )
    if file is not None and file.agent_list.is_list:
        assert file.agent_list.container is not None
        if existing is not None:
            text = remove_member(text, [file.agent_list.container], file.agent_list.entries.index(existing))
        text = append_item(text, [file.agent_list.container], {"name": name, **entry})
    else:
        container = (None if file is None else file.agent_list.container) or "servers"
        text = set_member(text, [container, name if existing is None else existing.name], entry)
    if default:
        text = set_member(text, ["defaultServer"], name)
    return _write(path, origin, file, text)


def remove(path: Path, origin: Origin, name: str) -> ConfigChange:
    """Remove an agent from the file. Raises UsageError if it is not there, or BadAgentConfig."""
    if not path.parent.is_dir():
        raise UsageError(f"{path}: it has no agent {name!r}")
    with edit_lock(path):
        return _remove(path, origin, name)


def _remove(path: Path, origin: Origin, name: str) -> ConfigChange:
    file = read_file(path, origin)
    entry = None if file is None else _entry(file, name)
    if file is None or entry is None:
        raise UsageError(f"{path}: it has no agent {name!r}")
    container = file.agent_list.container
    assert container is not None
    key_or_index = file.agent_list.entries.index(entry) if file.agent_list.is_list else entry.name
    text = remove_member(_text(file), [container], key_or_index)
    default = file.agent_list.default
    if default is not None and canonical_name(default[1]) == canonical_name(entry.name):
        text = remove_member(text, [], default[0])
    return _write(path, origin, file, text)


def _entry(file: AgentConfigFile, name: str) -> AgentListEntry | None:
    entries = file.agent_list.entries
    return next((entry for entry in entries if canonical_name(entry.name) == canonical_name(name)), None)


def _text(file: AgentConfigFile | None) -> str:
    # Unchanged, including byte order mark and line endings.
    return json.dumps({"servers": {}}, indent=2) + "\n" if file is None else file.content.decode()


def _write(path: Path, origin: Origin, file: AgentConfigFile | None, text: str) -> ConfigChange:
    content = text.encode()
    changed = read_content(path, content, origin)  # never write content that cannot be read again
    if file is None or content != file.content:
        mode = 0o600 if origin == "user" else 0o644
        replace_file(path, None if file is None else file.content, content, mode=mode)
    return ConfigChange(file, changed)
