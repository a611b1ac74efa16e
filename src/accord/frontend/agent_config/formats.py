"""Agent entries in the formats of other tools and of the official registry; checked values.

    servers        Accord, Agentao: an object by name; simse: a list of objects with a `name`
    agent_servers  Zed's settings, JetBrains' acp.json: an object by name
    agents         acpx's config.json: an object by name, whose `command` can be a whole command line

All formats are read into entries with the keys of `acp.json`. A key of one tool is understood in every
format. A known key without effect here is noted; an unknown key is refused.

Of the registry (`registry.json`, or the `agent.json` of one agent), packages with a pinned version are used.
Archives are not downloaded.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from accord.errors import UsageError
from accord.frontend.agent_config.agent_environment import literal, problem
from accord.frontend.agent_config.jsonc import BadJson, parse, read_whole
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
    said: dict[str, Any]
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
    """Messages about known keys without effect here."""


def read_form(value: Any, file: str) -> AgentListFile:
    """Read the agents of a parsed file. Raises BadAgentConfig."""
    if not isinstance(value, dict):
        raise BadAgentConfig(file, "", 'it must be an object, such as {"servers": {...}}')
    said = cast("dict[str, Any]", value)
    containers = [key for key in CONTAINERS if key in said]
    if len(containers) > 1:
        raise BadAgentConfig(
            file, containers[1], f"the agents already stand under `{containers[0]}`; keep one of them"
        )
    container = containers[0] if containers else None
    form = AgentListFile(container, isinstance(said.get(container or ""), list))
    for key in said:
        if key in _IGNORED_TOP_KEYS:
            form.notes.append(f"{file}: {key}: has no use here")
        elif key not in _TOP_KEYS and container != "agent_servers":
            raise BadAgentConfig(
                file, key, f"there is no such key; there are: {', '.join(sorted(_TOP_KEYS))}"
            )
    form.mcp_servers = said.get("mcpServers")
    if container is not None:
        line = container == "agents"
        word = _word(said, "defaultPermissions", _ACPX_DEFAULTS, file)
        for name, key, entry in _entries(said[container], container, file):
            form.entries.append(_entry(name, key, entry, line, word, form, file))
    _check_names(form, file)
    form.default = _default(said, form, file)
    return form


def _entries(value: Any, container: str, file: str) -> list[tuple[str, str, Any]]:
    if isinstance(value, dict):
        return [(name, f"{container}.{name}", entry) for name, entry in cast("dict[str, Any]", value).items()]
    if not isinstance(value, list) or container != "servers":
        raise BadAgentConfig(file, container, "it must be an object with the names of the agents as keys")
    found: list[tuple[str, str, Any]] = []
    for number, entry in enumerate(cast("list[Any]", value)):
        key = f"{container}[{number}]"
        name = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise BadAgentConfig(file, f"{key}.name", "it is missing or no text")
        found.append(
            (name, key, {key: value for key, value in cast("dict[str, Any]", entry).items() if key != "name"})
        )
    return found


def _check_names(form: AgentListFile, file: str) -> None:
    seen: dict[str, str] = {}
    for entry in form.entries:
        name = entry.name
        if not name.strip() or name != name.strip() or not name.isprintable() or name.startswith("-"):
            raise BadAgentConfig(
                file,
                entry.key,
                f"{name!r} is no name: no blanks around it, no control characters, no `-` in front",
            )
        if (other := seen.get(canonical_name(name))) is not None:
            same = name.casefold() == other.casefold()
            why = (
                "names count in any case"
                if same
                else f"both are names of {canonical_name(name)}, keep one of them"
            )
            raise BadAgentConfig(file, entry.key, f"there already is {other!r}; {why}")
        seen[canonical_name(name)] = name


def _entry(
    name: str, key: str, value: Any, line: bool, word: str | None, form: AgentListFile, file: str
) -> AgentListEntry:
    if not isinstance(value, dict):
        raise BadAgentConfig(file, key, "it must be an object with `command`, `args`, ...")
    said: dict[str, Any] = {}
    given = cast("dict[str, Any]", value)
    for own, content in given.items():
        plain = _KEY_ALIASES.get(own, own)
        if own in _IGNORED_KEYS:
            form.notes.append(f"{file}: {key}.{own}: has no use here")
        elif plain in KEYS:
            if plain in said:
                raise BadAgentConfig(file, f"{key}.{own}", f"it says the same as `{plain}`; keep one of them")
            said[plain] = content
        elif own not in _CONVERTED:
            raise BadAgentConfig(
                file, f"{key}.{own}", f"there is no such key; there are: {', '.join(sorted(KEYS))}"
            )
    _read_command(given, said, key, line, file)
    _read_type(given, said, key, form, file)
    if word is not None:
        said.setdefault("permissions", word)
    return AgentListEntry(name, key, said, _unattended(given, key, file))


def _read_command(given: dict[str, Any], said: dict[str, Any], key: str, line: bool, file: str) -> None:
    """Convert acpx: `argv` alone, or a `command` without `args` that is a whole command line."""
    if "argv" in given:
        argv = given["argv"]
        if "command" in given or "args" in given:
            raise BadAgentConfig(file, f"{key}.argv", "it stands alone, without `command` and `args`")
        if not isinstance(argv, list) or not argv:
            raise BadAgentConfig(file, f"{key}.argv", "it must be a list of texts, the program first")
        said["command"], said["args"] = argv[0], argv[1:]
    elif line and "args" not in given and isinstance(given.get("command"), str):
        try:
            words = shlex.split(given["command"])
        except ValueError as error:
            raise BadAgentConfig(
                file, f"{key}.command", f"it is no command line: {str(error).lower()}"
            ) from None
        if words:
            said["command"], said["args"] = words[0], words[1:]


def _read_type(given: dict[str, Any], said: dict[str, Any], key: str, form: AgentListFile, file: str) -> None:
    """Check Zed's `type`: a custom command, or an agent of the registry, found in the catalog by id."""
    kind = given.get("type", "custom")
    if kind not in ("custom", "registry", "extension"):
        raise BadAgentConfig(file, f"{key}.type", f"{kind!r} is none of custom, registry, extension")
    if kind != "custom" and "command" in said:
        raise BadAgentConfig(file, f"{key}.command", f"an agent of type {kind} has none")


def _unattended(given: dict[str, Any], key: str, file: str) -> str | None:
    """Convert Agentao's policy for runs without a user: a word or `{"mode": word}`."""
    policy = given.get("nonInteractivePolicy")
    if isinstance(policy, dict):
        policy = cast("dict[str, Any]", policy).get("mode")
    return _word({"nonInteractivePolicy": policy}, "nonInteractivePolicy", _AGENTAO_DEFAULTS, file, f"{key}.")


def _word(said: dict[str, Any], key: str, words: dict[str, str], file: str, before: str = "") -> str | None:
    value = said.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or value not in words:
        raise BadAgentConfig(file, before + key, f"{value!r} is none of {', '.join(words)}")
    return words[value]


def _default(said: dict[str, Any], form: AgentListFile, file: str) -> tuple[str, str] | None:
    given = {key: said[key] for key in ("defaultServer", "defaultAgent") if said.get(key) is not None}
    for key, name in given.items():
        if not isinstance(name, str):
            raise BadAgentConfig(file, key, "it must be the name of an agent")
    if "defaultServer" in given:
        return "defaultServer", given["defaultServer"]
    agent = given.get("defaultAgent")
    if agent is None:
        return None
    if form.is_list and agent.casefold() not in {entry.name.casefold() for entry in form.entries}:
        # In simse, this is an agent inside a server, which the protocol does not have.
        form.notes.append(f"{file}: defaultAgent: {agent!r} is none of the servers, so it has no use here")
        return None
    return "defaultAgent", agent


# -- checked values ------------------------------------------------------------------------------------------


def read_text(value: Any, file: str, key: str, what: str | None) -> str:
    """Read a string. If `what` is set, it must not be empty."""
    if not isinstance(value, str) or "\0" in value:
        raise BadAgentConfig(file, key, "it is missing" if value is None and what else "it must be a text")
    if what is not None and not value.strip():
        raise BadAgentConfig(file, key, f"it is empty; it must name {what}")
    return value


def read_texts(value: Any, file: str, key: str) -> tuple[str, ...]:
    """Read a list of strings."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadAgentConfig(file, key, "it must be a list of texts")
    items = cast("list[Any]", value)
    return tuple(read_text(item, file, f"{key}[{number}]", None) for number, item in enumerate(items))


def read_count(value: Any, file: str, key: str, least: int, most: int) -> int | None:
    """Read a whole number; None if it is missing."""
    if value is None:
        return None
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
    if not whole or not least <= value <= most:
        raise BadAgentConfig(file, key, f"it must be a whole number from {least} to {most}")
    return int(value)


def read_env(value: Any, file: str, key: str, *, removable: bool = False) -> dict[str, str | None]:
    """Read variables: an object, or a list of `{name, value}`. With `removable`, null removes a variable."""
    env: dict[str, str | None] = {}
    for name, text in _pairs(value, file, key):
        if not name or "=" in name or not name.isprintable():
            raise BadAgentConfig(file, key, f"{name!r} cannot be the name of a variable")
        if not isinstance(text, str) and not (text is None and removable):
            raise BadAgentConfig(
                file, f"{key}.{name}", f"it must be a text{', or null' if removable else ''}"
            )
        if text is not None and ((why := problem(text)) or "\0" in text):
            raise BadAgentConfig(file, f"{key}.{name}", why or "it has a zero character in it")
        env[name] = text
    return env


def _pairs(value: Any, file: str, key: str) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).items())
    if not isinstance(value, list):
        raise BadAgentConfig(file, key, "it must be an object of texts by name")
    pairs: list[tuple[str, Any]] = []
    for number, item in enumerate(cast("list[Any]", value)):
        pair = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        name = pair.get("name", pair.get("key"))
        if not isinstance(name, str) or set(pair) not in ({"name", "value"}, {"key", "value"}):
            raise BadAgentConfig(file, f"{key}[{number}]", "it must have `name` and `value`")
        pairs.append((name, pair["value"]))
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
    key: str

    def entry(self) -> dict[str, Any]:
        """The entry for `acp.json`. Raises BadAgentConfig if the agent has no package that can be started."""
        for runner in ("npx", "uvx"):
            if runner in self.distribution:
                return self._package_entry(runner)
        raise BadAgentConfig(self.file, f"{self.key}distribution", self._only_binary())

    def _package_entry(self, runner: str) -> dict[str, Any]:
        key = f"{self.key}distribution.{runner}"
        said = self.distribution[runner]
        if not isinstance(said, dict):
            raise BadAgentConfig(self.file, key, "it must be an object with `package`")
        given = cast("dict[str, Any]", said)
        package = read_text(given.get("package"), self.file, f"{key}.package", "a package")
        pinned = _PACKAGE[runner].fullmatch(package)
        if pinned is None:
            raise BadAgentConfig(
                self.file, f"{key}.package", f"{package!r} has no pinned version, so it is not taken"
            )
        if pinned[2] != self.version:
            raise BadAgentConfig(
                self.file, f"{key}.package", f"{package!r} is not of the version {self.version}, as it says"
            )
        args = read_texts(given.get("args"), self.file, f"{key}.args")
        entry: dict[str, Any] = {"command": runner, "args": [*_RUNNER_ARGUMENTS[runner], package, *args]}
        env = read_env(given.get("env"), self.file, f"{key}.env")
        if env:
            entry["env"] = {name: literal(value) for name, value in env.items() if value is not None}
        entry["description"] = f"{self.name} {self.version}" + (
            f": {self.description}" if self.description else ""
        )
        return entry

    def _only_binary(self) -> str:
        archives = cast("dict[str, Any]", self.distribution.get("binary") or {})
        urls = [
            cast("dict[str, Any]", one).get("archive") for one in archives.values() if isinstance(one, dict)
        ]
        url = urls[0] if urls else None
        hint = f" from {url}" if isinstance(url, str) else ""
        return (
            f"{self.id} comes as an archive, which is not downloaded: get it{hint}, "
            f"then `accord agents add {self.id} -- PROGRAM ARGUMENTS`"
        )


def read_registry(path: Path) -> dict[str, RegistryAgent]:
    """Read the agents of a registry file, by id. Raises BadAgentConfig or UsageError."""
    file = str(path)
    content = read_whole(path)
    if content is None:
        hint = " (an address has to be downloaded first)" if file.startswith(("http:/", "https:/")) else ""
        raise BadAgentConfig(file, "", f"there is no such file{hint}")
    try:
        value = parse(content.decode("utf-8-sig")).value
    except UnicodeDecodeError:
        raise BadAgentConfig(file, "", "it is not UTF-8 text") from None
    except BadJson as error:
        raise BadAgentConfig(file, "", f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadAgentConfig(file, "", "it is neither a registry.json nor an agent.json")
    said = cast("dict[str, Any]", value)
    if "agents" not in said:
        agent = _agent(said, file, "")
        return {agent.id: agent}
    if not isinstance(said["agents"], list):
        raise BadAgentConfig(file, "agents", "it must be a list")
    agents: dict[str, RegistryAgent] = {}
    for number, one in enumerate(cast("list[Any]", said["agents"])):
        agent = _agent(one, file, f"agents[{number}].")
        if agent.id in agents:
            raise BadAgentConfig(file, f"agents[{number}].id", f"{agent.id!r} stands twice")
        agents[agent.id] = agent
    return agents


def _agent(value: Any, file: str, key: str) -> RegistryAgent:
    said = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    texts = [read_text(said.get(name), file, key + name, "the agent") for name in ("id", "name", "version")]
    if not _ID.fullmatch(texts[0]):
        raise BadAgentConfig(
            file, f"{key}id", f"{texts[0]!r} is no id: small letters, digits and `-`, a letter first"
        )
    if not _VERSION.fullmatch(texts[2]):
        raise BadAgentConfig(file, f"{key}version", f"{texts[2]!r} is no version like 1.2.3")
    distribution = said.get("distribution")
    if not isinstance(distribution, dict) or not distribution:
        raise BadAgentConfig(file, f"{key}distribution", "it must be an object with binary, npx or uvx")
    description = said.get("description")
    text = read_text(description, file, f"{key}description", None) if description is not None else ""
    return RegistryAgent(texts[0], texts[1], texts[2], text, cast("dict[str, Any]", distribution), file, key)
