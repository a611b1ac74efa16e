"""Agent entries in the formats of other tools and of the official registry; checked values.

    servers        Accord, Agentao: an object by name; simse: a list of objects with a `name`
    agent_servers  Zed's settings, JetBrains' acp.json: an object by name
    agents         acpx's config.json: an object by name, whose `command` can be a whole command line

All formats are read into entries with the keys of `acp.json`. A key of one tool is understood in every
format. A known key that Accord does not use is noted; an unknown key is refused.

From the registry (`registry.json`, or the `agent.json` of one agent), only packages with a pinned version are
used. Archives are not downloaded.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from accord.errors import UsageError
from accord.frontend.agent_config.agent_environment import escape_references, reference_problem
from accord.frontend.agent_config.jsonc import BadJson, parse, read_bytes
from accord.frontend.known_agents import canonical_name
from accord.safe_text import visible

CONTAINERS: Final[tuple[str, ...]] = ("servers", "agent_servers", "agents")

KEYS: Final[frozenset[str]] = frozenset(
    [
        "command",
        "args",
        "env",
        "cwd",
        "timeoutMs",
        "startupTimeoutMs",
        "permissions",
        "mcpServers",
        "maxRestarts",
        "description",
    ]
)
_KEY_ALIASES: Final = {
    "requestTimeoutMs": "timeoutMs",
    "maxRecoverableRestarts": "maxRestarts",
    "displayName": "description",
}
_CONVERTED: Final = frozenset(("argv", "type", "nonInteractivePolicy"))
_IGNORED_KEYS: Final = frozenset(
    [
        "autoStart",
        "capabilities",
        "defaultAgent",
        "default_mode",
        "default_model",
        "default_config_options",
        "favorite_models",
        "favorite_config_option_values",
        "use_idea_mcp",
        "use_custom_mcp",
    ]
)
_TOP_KEYS: Final = frozenset(
    ("$schema", "defaultServer", "defaultAgent", "mcpServers", "defaultPermissions", *CONTAINERS)
)
_IGNORED_TOP_KEYS: Final = frozenset(
    [
        "nonInteractivePermissions",
        "authPolicy",
        "ttl",
        "timeout",
        "queueMaxDepth",
        "format",
        "auth",
        "disableExec",
        "default_mcp_settings",
    ]
)
_ACPX_DEFAULTS: Final = {"approve-all": "all", "approve-reads": "reads", "deny-all": "none"}
_AGENTAO_DEFAULTS: Final = {"reject_all": "none", "accept_all": "all"}


class BadAgentConfig(UsageError):
    """An invalid agent configuration; the message names the file, the key and the reason."""

    def __init__(self, file: str, key: str, reason: str) -> None:
        super().__init__(visible(": ".join(part for part in (file, key, reason) if part)))


@dataclass(slots=True)
class AgentListEntry:
    """One agent of a file, with the keys of `acp.json`."""

    name: str
    key: str
    """The path of keys in the file."""
    members: dict[str, Any]
    unattended: str | None = None


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
    """Read the agents of a parsed file. Raises BadAgentConfig."""
    if not isinstance(value, dict):
        raise BadAgentConfig(file, "", 'it must be an object, such as {"servers": {...}}')
    members = cast("dict[str, Any]", value)
    containers = [key for key in CONTAINERS if key in members]
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
            members.get("defaultPermissions"), _ACPX_DEFAULTS, file, "defaultPermissions"
        )
        for name, key, value in _list_entries(members[container], container, file):
            entry = _read_entry(name, key, value, agent_list, file)
            if permissions is not None:
                entry.members.setdefault("permissions", permissions)
            agent_list.entries.append(entry)
    _check_names(agent_list, file)
    agent_list.default = _read_default(members, agent_list, file)
    return agent_list


def _list_entries(value: Any, container: str, file: str) -> list[tuple[str, str, Any]]:
    if isinstance(value, dict):
        return [(name, f"{container}.{name}", entry) for name, entry in cast("dict[str, Any]", value).items()]
    if not isinstance(value, list) or container != "servers":
        raise BadAgentConfig(file, container, "it must be an object with the names of the agents as keys")
    entries: list[tuple[str, str, Any]] = []
    for number, entry in enumerate(cast("list[Any]", value)):
        key = f"{container}[{number}]"
        name = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise BadAgentConfig(file, f"{key}.name", "it is missing or not a string")
        entries.append(
            (name, key, {key: value for key, value in cast("dict[str, Any]", entry).items() if key != "name"})
        )
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
        elif key_name in KEYS:
            if key_name in members:
                raise BadAgentConfig(
                    file, f"{key}.{raw_key}", f"it means the same as `{key_name}`; keep one of them"
                )
            members[key_name] = content
        elif raw_key not in _CONVERTED:
            raise BadAgentConfig(
                file, f"{key}.{raw_key}", f"unknown key; known keys: {', '.join(sorted(KEYS))}"
            )
    _read_command(raw_members, members, key, file, is_line=agent_list.container == "agents")
    _read_type(raw_members, members, key, file)
    return AgentListEntry(name, key, members, _read_unattended(raw_members, key, file))


def _read_command(
    raw_members: dict[str, Any], members: dict[str, Any], key: str, file: str, *, is_line: bool
) -> None:
    """Convert the forms of acpx: `argv`, or a `command` without `args` that is a whole command line."""
    if "argv" in raw_members:
        argv = raw_members["argv"]
        if "command" in raw_members or "args" in raw_members:
            raise BadAgentConfig(file, f"{key}.argv", "it cannot be combined with `command` or `args`")
        if not isinstance(argv, list) or not argv:
            raise BadAgentConfig(file, f"{key}.argv", "it must be a list of strings, the program first")
        members["command"], members["args"] = argv[0], argv[1:]
    elif is_line and "args" not in raw_members and isinstance(raw_members.get("command"), str):
        try:
            words = shlex.split(raw_members["command"])
        except ValueError as error:
            raise BadAgentConfig(
                file, f"{key}.command", f"it is not a valid command line: {str(error).lower()}"
            ) from None
        if words:
            members["command"], members["args"] = words[0], words[1:]


def _read_type(raw_members: dict[str, Any], members: dict[str, Any], key: str, file: str) -> None:
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
    return _translate(policy, _AGENTAO_DEFAULTS, file, f"{key}.nonInteractivePolicy")


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


# -- checked values ------------------------------------------------------------------------------------------


def read_text(value: Any, file: str, key: str, what: str | None) -> str:
    """Read a string. If `what` is set, it must not be empty."""
    if not isinstance(value, str) or "\0" in value:
        raise BadAgentConfig(file, key, "it is missing" if value is None and what else "it must be a string")
    if what is not None and not value.strip():
        raise BadAgentConfig(file, key, f"it is empty; it must name {what}")
    return value


def read_texts(value: Any, file: str, key: str) -> tuple[str, ...]:
    """Read a list of strings."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadAgentConfig(file, key, "it must be a list of strings")
    items = cast("list[Any]", value)
    return tuple(read_text(item, file, f"{key}[{number}]", None) for number, item in enumerate(items))


def read_count(value: Any, file: str, key: str, minimum: int, maximum: int) -> int | None:
    """Read a whole number; None if it is missing."""
    if value is None:
        return None
    is_whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
    if not is_whole or not minimum <= value <= maximum:
        raise BadAgentConfig(file, key, f"it must be a whole number from {minimum} to {maximum}")
    return int(value)


def read_env(value: Any, file: str, key: str, *, removable: bool = False) -> dict[str, str | None]:
    """Read variables: an object, or a list of `{name, value}`. With `removable`, null removes a variable."""
    env: dict[str, str | None] = {}
    for name, text in _name_value_pairs(value, file, key):
        if not name or "=" in name or not name.isprintable():
            raise BadAgentConfig(file, key, f"{name!r} cannot be the name of a variable")
        if not isinstance(text, str) and not (text is None and removable):
            raise BadAgentConfig(
                file, f"{key}.{name}", f"it must be a string{' or null' if removable else ''}"
            )
        if text is not None and ((reason := reference_problem(text)) or "\0" in text):
            raise BadAgentConfig(file, f"{key}.{name}", reason or "it contains a null character")
        env[name] = text
    return env


def _name_value_pairs(value: Any, file: str, key: str) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).items())
    if not isinstance(value, list):
        raise BadAgentConfig(file, key, "it must be an object with string values")
    pairs: list[tuple[str, Any]] = []
    for number, item in enumerate(cast("list[Any]", value)):
        members = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        name = members.get("name", members.get("key"))
        if not isinstance(name, str) or set(members) not in ({"name", "value"}, {"key", "value"}):
            raise BadAgentConfig(file, f"{key}[{number}]", "it must have `name` and `value`")
        pairs.append((name, members["value"]))
    return pairs


# -- the official registry -----------------------------------------------------------------------------------

_ID: Final = re.compile(r"[a-z][a-z0-9-]*")
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_PACKAGE: Final = {
    "npx": re.compile(r"((?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*)@(\S+)"),
    "uvx": re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._-]+\])?)(?:==|@)(\S+)"),
}
_RUNNER_ARGUMENTS: Final = {"npx": ["-y"], "uvx": []}


@dataclass(frozen=True, slots=True)
class RegistryAgent:
    """One agent of the registry."""

    id: str
    name: str
    version: str
    description: str
    distribution: dict[str, Any]
    file: str
    key_prefix: str
    """The path of keys to the agent in the file, with a final dot."""

    def entry(self) -> dict[str, Any]:
        """The entry for `acp.json`. Raises BadAgentConfig if the agent has no package that can be started."""
        for runner in ("npx", "uvx"):
            if runner in self.distribution:
                return self._package_entry(runner)
        raise BadAgentConfig(self.file, f"{self.key_prefix}distribution", self._archive_hint())

    def _package_entry(self, runner: str) -> dict[str, Any]:
        key = f"{self.key_prefix}distribution.{runner}"
        value = self.distribution[runner]
        if not isinstance(value, dict):
            raise BadAgentConfig(self.file, key, "it must be an object with `package`")
        members = cast("dict[str, Any]", value)
        package = read_text(members.get("package"), self.file, f"{key}.package", "a package")
        match = _PACKAGE[runner].fullmatch(package)
        if match is None:
            raise BadAgentConfig(
                self.file, f"{key}.package", f"{package!r} is refused: it has no pinned version"
            )
        if match[2] != self.version:
            raise BadAgentConfig(
                self.file, f"{key}.package", f"{package!r} does not have the entry's version {self.version}"
            )
        args = read_texts(members.get("args"), self.file, f"{key}.args")
        entry: dict[str, Any] = {"command": runner, "args": [*_RUNNER_ARGUMENTS[runner], package, *args]}
        env = read_env(members.get("env"), self.file, f"{key}.env")
        if env:
            entry["env"] = {
                name: escape_references(value) for name, value in env.items() if value is not None
            }
        entry["description"] = f"{self.name} {self.version}" + (
            f": {self.description}" if self.description else ""
        )
        return entry

    def _archive_hint(self) -> str:
        archives = cast("dict[str, Any]", self.distribution.get("binary") or {})
        items = [cast("dict[str, Any]", item) for item in archives.values() if isinstance(item, dict)]
        url = items[0].get("archive") if items else None
        hint = f" from {url}" if isinstance(url, str) else ""
        return (
            f"{self.id} is an archive, which Accord does not download: get it{hint}, "
            f"then run `accord agents add {self.id} -- PROGRAM ARGUMENTS`"
        )


def read_registry(path: Path) -> dict[str, RegistryAgent]:
    """Read the agents of a registry file, by id. Raises BadAgentConfig or UsageError."""
    file = str(path)
    content = read_bytes(path)
    if content is None:
        hint = "; download it first and name the file" if file.startswith(("http:/", "https:/")) else ""
        raise BadAgentConfig(file, "", f"the file does not exist{hint}")
    try:
        value = parse(content.decode("utf-8-sig")).value
    except UnicodeDecodeError:
        raise BadAgentConfig(file, "", "it is not UTF-8 text") from None
    except BadJson as error:
        raise BadAgentConfig(file, "", f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadAgentConfig(file, "", "it is neither a registry.json nor an agent.json")
    members = cast("dict[str, Any]", value)
    if "agents" not in members:
        agent = _read_registry_agent(members, file, "")
        return {agent.id: agent}
    if not isinstance(members["agents"], list):
        raise BadAgentConfig(file, "agents", "it must be a list")
    agents: dict[str, RegistryAgent] = {}
    for number, item in enumerate(cast("list[Any]", members["agents"])):
        agent = _read_registry_agent(item, file, f"agents[{number}].")
        if agent.id in agents:
            raise BadAgentConfig(file, f"agents[{number}].id", f"{agent.id!r} appears twice")
        agents[agent.id] = agent
    return agents


def _read_registry_agent(value: Any, file: str, key_prefix: str) -> RegistryAgent:
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    id = read_text(members.get("id"), file, f"{key_prefix}id", "the agent")
    name = read_text(members.get("name"), file, f"{key_prefix}name", "the agent")
    version = read_text(members.get("version"), file, f"{key_prefix}version", "the version")
    if not _ID.fullmatch(id):
        raise BadAgentConfig(
            file,
            f"{key_prefix}id",
            f"{id!r} is not a valid id: use a-z, 0-9 and `-`, and start with a letter",
        )
    if not _VERSION.fullmatch(version):
        raise BadAgentConfig(file, f"{key_prefix}version", f"{version!r} is not a version such as 1.2.3")
    distribution = members.get("distribution")
    if not isinstance(distribution, dict) or not distribution:
        raise BadAgentConfig(
            file, f"{key_prefix}distribution", "it must be an object with binary, npx or uvx"
        )
    description = members.get("description")
    text = read_text(description, file, f"{key_prefix}description", None) if description is not None else ""
    return RegistryAgent(id, name, version, text, cast("dict[str, Any]", distribution), file, key_prefix)
