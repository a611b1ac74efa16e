"""Read agents from `acp.json` and the configuration files of other tools.

    servers        Accord, Agentao: an object by name; simse: a list of objects with a `name`
    agent_servers  Zed's settings, JetBrains' acp.json: an object by name
    agents         acpx's config.json: an object by name, whose `command` can be a whole command line

All formats are read into entries with the keys of `acp.json`. A key of one tool is understood in every
format. A known key that Accord does not use is noted; an unknown key is refused, except at the top level of
Zed's settings.
"""

import shlex
from dataclasses import dataclass, field
from typing import Any, Final, cast

from accord.file_format import FileFormat
from accord.frontend.agent_config.config_values import BadAgentConfig
from accord.frontend.known_agents import canonical_name

CONTAINER_KEYS: Final[tuple[str, ...]] = ("servers", "agent_servers", "agents")

ENTRY_KEYS: Final[frozenset[str]] = frozenset([
    "command", "args", "env", "cwd", "timeoutMs", "startupTimeoutMs", "cancelTimeoutMs", "permissions",
    "mcpServers", "maxRestarts", "protocol", "description",
])  # fmt: skip
_KEY_ALIASES: Final = {
    "requestTimeoutMs": "timeoutMs",
    "maxRecoverableRestarts": "maxRestarts",
    "displayName": "description",
}
_CONVERTED_KEYS: Final = frozenset(("argv", "type", "nonInteractivePolicy"))
_IGNORED_KEYS: Final = frozenset([
    "autoStart", "capabilities", "defaultAgent", "default_mode", "default_model", "default_config_options",
    "favorite_models", "favorite_config_option_values", "use_idea_mcp", "use_custom_mcp",
])  # fmt: skip
_FORMAT: Final = FileFormat()
_TOP_KEYS: Final = frozenset(
    (
        "$schema",
        "version",
        "defaultServer",
        "defaultAgent",
        "mcpServers",
        "defaultPermissions",
        *CONTAINER_KEYS,
    )
)
_IGNORED_TOP_KEYS: Final = frozenset([
    "nonInteractivePermissions", "authPolicy", "ttl", "timeout", "queueMaxDepth", "format", "auth",
    "disableExec", "default_mcp_settings",
])  # fmt: skip
_ACPX_PERMISSIONS: Final = {"approve-all": "all", "approve-reads": "reads", "deny-all": "none"}
_AGENTAO_POLICIES: Final = {"reject_all": "none", "accept_all": "all"}


@dataclass(slots=True)
class AgentListEntry:
    """One agent of a file, with the keys of `acp.json`."""

    name: str
    key: str
    """The path of keys in the file."""
    members: dict[str, Any]
    unattended: str | None = None
    """The permission default for runs without a user: `none` or `all`."""


@dataclass(slots=True)
class AgentListFile:
    """The agents of a file."""

    container: str | None
    is_list: bool
    entries: list[AgentListEntry] = field(default_factory=list[AgentListEntry])
    default: tuple[str, str] | None = None
    """The key that sets the default, and the name of the agent."""
    mcp_servers: Any = None
    notes: list[str] = field(default_factory=list[str])
    """Messages about known keys that Accord does not use."""


def read_agent_list(value: Any, file: str) -> AgentListFile:
    """Read the agents of a parsed file. Raises BadAgentConfig, NewerFormat."""
    if not isinstance(value, dict):
        raise BadAgentConfig(file, "", 'it must be an object, such as {"servers": {...}}')
    members = cast("dict[str, Any]", value)
    _check_version(members, file)
    containers = [key for key in CONTAINER_KEYS if key in members]
    if len(containers) > 1:
        raise BadAgentConfig(
            file, containers[1], f"the file also has agents under `{containers[0]}`; keep one of them"
        )
    container = containers[0] if containers else None
    agent_list = AgentListFile(container, isinstance(members.get(container or ""), list))
    for key in members:
        if key in _IGNORED_TOP_KEYS:
            agent_list.notes.append(f"{file}: {key}: ignored; Accord does not use it")
        elif key not in _TOP_KEYS and container != "agent_servers":
            raise BadAgentConfig(file, key, f"unknown key; known keys: {', '.join(sorted(_TOP_KEYS))}")
    agent_list.mcp_servers = members.get("mcpServers")
    if container is not None:
        permissions = _translate(
            members.get("defaultPermissions"), _ACPX_PERMISSIONS, file, "defaultPermissions"
        )
        for name, entry_key, entry_value in _list_entries(members[container], container, file):
            entry = _read_entry(name, entry_key, entry_value, agent_list, file)
            if permissions is not None:
                entry.members.setdefault("permissions", permissions)
            agent_list.entries.append(entry)
    _check_names(agent_list, file)
    agent_list.default = _read_default(members, agent_list, file)
    return agent_list


def _check_version(members: dict[str, Any], file: str) -> None:
    """Refuse a newer format. Another program's `version` is not ours, and not a number."""
    if isinstance(version := members.get("version"), int):
        _FORMAT.check(version, file)


def _list_entries(value: Any, container: str, file: str) -> list[tuple[str, str, Any]]:
    if isinstance(value, dict):
        return [(name, f"{container}.{name}", entry) for name, entry in cast("dict[str, Any]", value).items()]
    if not isinstance(value, list) or container != "servers":
        raise BadAgentConfig(file, container, "it must be an object with the names of the agents as keys")
    entries: list[tuple[str, str, Any]] = []
    for number, entry in enumerate(cast("list[Any]", value)):
        key = f"{container}[{number}]"
        members = dict(cast("dict[str, Any]", entry)) if isinstance(entry, dict) else {}
        name = members.pop("name", None)
        if not isinstance(name, str):
            raise BadAgentConfig(file, f"{key}.name", "it is missing or not a string")
        entries.append((name, key, members))
    return entries


def _check_names(agent_list: AgentListFile, file: str) -> None:
    names: dict[str, str] = {}
    for entry in agent_list.entries:
        name = entry.name
        if not name.strip() or name != name.strip() or not name.isprintable() or name.startswith("-"):
            raise BadAgentConfig(
                file,
                entry.key,
                f"{name!r} is not a valid name: no surrounding spaces, control characters or leading `-`",
            )
        if (other := names.get(canonical_name(name))) is not None:
            same = name.casefold() == other.casefold()
            reason = "names ignore case" if same else f"both are names of {canonical_name(name)}"
            raise BadAgentConfig(file, entry.key, f"{other!r} already exists ({reason}); keep one of them")
        names[canonical_name(name)] = name


def _read_entry(name: str, key: str, value: Any, agent_list: AgentListFile, file: str) -> AgentListEntry:
    if not isinstance(value, dict):
        raise BadAgentConfig(file, key, "it must be an object with `command`, `args`, ...")
    members: dict[str, Any] = {}
    raw_members = cast("dict[str, Any]", value)
    for raw_key, content in raw_members.items():
        key_name = _KEY_ALIASES.get(raw_key, raw_key)
        if raw_key in _IGNORED_KEYS:
            agent_list.notes.append(f"{file}: {key}.{raw_key}: ignored; Accord does not use it")
        elif key_name in ENTRY_KEYS:
            if key_name in members:
                raise BadAgentConfig(
                    file, f"{key}.{raw_key}", f"it means the same as `{key_name}`; keep one of them"
                )
            members[key_name] = content
        elif raw_key not in _CONVERTED_KEYS:
            raise BadAgentConfig(
                file, f"{key}.{raw_key}", f"unknown key; known keys: {', '.join(sorted(ENTRY_KEYS))}"
            )
    _read_command(raw_members, members, key, file, is_command_line=agent_list.container == "agents")
    _check_type(raw_members, members, key, file)
    return AgentListEntry(name, key, members, _read_unattended(raw_members, key, file))


def _read_command(
    raw_members: dict[str, Any], members: dict[str, Any], key: str, file: str, *, is_command_line: bool
) -> None:
    """Convert the forms of acpx: `argv`, or a `command` without `args` that is a whole command line."""
    if "argv" in raw_members:
        argv = raw_members["argv"]
        if "command" in raw_members or "args" in raw_members:
            raise BadAgentConfig(file, f"{key}.argv", "it cannot be combined with `command` or `args`")
        if not isinstance(argv, list) or not argv:
            raise BadAgentConfig(file, f"{key}.argv", "it must be a list of strings, the program first")
        members["command"], members["args"] = argv[0], argv[1:]
    elif is_command_line and "args" not in raw_members and isinstance(raw_members.get("command"), str):
        try:
            words = shlex.split(raw_members["command"])
        except ValueError as error:
            raise BadAgentConfig(
                file, f"{key}.command", f"it is not a valid command line: {str(error).lower()}"
            ) from None
        if words:
            members["command"], members["args"] = words[0], words[1:]


def _check_type(raw_members: dict[str, Any], members: dict[str, Any], key: str, file: str) -> None:
    """Check Zed's `type`: a custom command, or an agent of the registry, which the catalog has by id."""
    kind = raw_members.get("type", "custom")
    if kind not in ("custom", "registry", "extension"):
        raise BadAgentConfig(file, f"{key}.type", f"{kind!r} is not one of custom, registry, extension")
    if kind != "custom" and "command" in members:
        raise BadAgentConfig(file, f"{key}.command", f"an agent of type {kind} has no command; remove it")


def _read_unattended(raw_members: dict[str, Any], key: str, file: str) -> str | None:
    """Convert Agentao's policy for runs without a user: a word or `{"mode": word}`."""
    policy = raw_members.get("nonInteractivePolicy")
    if isinstance(policy, dict):
        policy = cast("dict[str, Any]", policy).get("mode")
    return _translate(policy, _AGENTAO_POLICIES, file, f"{key}.nonInteractivePolicy")


def _translate(value: Any, words: dict[str, str], file: str, key: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in words:
        raise BadAgentConfig(file, key, f"{value!r} is not one of {', '.join(words)}")
    return words[value]


def _read_default(members: dict[str, Any], agent_list: AgentListFile, file: str) -> tuple[str, str] | None:
    for key in ("defaultServer", "defaultAgent"):
        if not isinstance(members.get(key), str | None):
            raise BadAgentConfig(file, key, "it must be the name of an agent")
    if members.get("defaultServer") is not None:
        return "defaultServer", members["defaultServer"]
    agent: str | None = members.get("defaultAgent")
    if agent is None:
        return None
    if agent_list.is_list and agent.casefold() not in {entry.name.casefold() for entry in agent_list.entries}:
        # In simse, this is an agent inside a server, which the protocol does not have.
        agent_list.notes.append(f"{file}: defaultAgent: ignored; {agent!r} is not an agent of this file")
        return None
    return "defaultAgent", agent
