"""The forms in which tools write down their agents, read into one: entries by name, with the keys of `acp.json`.

    servers        ours and Agentao's: an object by name; simse's: a list of objects with a `name`
    agent_servers  Zed's settings, JetBrains' acp.json: an object by name
    agents         acpx's config.json: an object by name, whose `command` may be a whole line

A key of one tool is understood in every form. What is known and has no use here is noted, what is not known is refused.
"""

import shlex
from dataclasses import dataclass, field
from typing import Any, Final, cast

from accord.cleaning import visible
from accord.client.catalogue import identity
from accord.errors import UsageError

CONTAINERS: Final = ("servers", "agent_servers", "agents")

KEYS: Final = frozenset(
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
_OTHER_NAMES: Final = {
    "requestTimeoutMs": "timeoutMs",
    "maxRecoverableRestarts": "maxRestarts",
    "displayName": "description",
}
_READ: Final = frozenset(("argv", "type", "nonInteractivePolicy"))
_NO_USE: Final = frozenset(
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
_TOP: Final = frozenset(
    ("$schema", "defaultServer", "defaultAgent", "mcpServers", "defaultPermissions", *CONTAINERS)
)
_NO_USE_TOP: Final = frozenset(
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
_WORDS_OF_ACPX: Final = {"approve-all": "all", "approve-reads": "reads", "deny-all": "none"}
_WORDS_OF_AGENTAO: Final = {"reject_all": "none", "accept_all": "all"}


class BadServers(UsageError):
    """A file of agents that cannot be used; the text names file, key and reason."""

    def __init__(self, file: str, key: str, reason: str) -> None:
        super().__init__(visible(": ".join(part for part in (file, key, reason) if part)))


@dataclass(slots=True)
class FormEntry:
    """One agent of a file, in the keys of `acp.json`."""

    name: str
    key: str
    """Where it stands in the file."""
    said: dict[str, Any]
    unattended: str | None = None


@dataclass(slots=True)
class Form:
    """A whole file."""

    container: str | None
    is_list: bool
    entries: list[FormEntry] = field(default_factory=list[FormEntry])
    default: tuple[str, str] | None = None
    """The key and the name it gives."""
    mcp_servers: Any = None
    notes: list[str] = field(default_factory=list[str])
    """What was understood and has no use here."""


def read_form(value: Any, file: str) -> Form:
    """The agents of a parsed file. Raises BadServers."""
    if not isinstance(value, dict):
        raise BadServers(file, "", 'it must be an object, such as {"servers": {...}}')
    said = cast("dict[str, Any]", value)
    containers = [key for key in CONTAINERS if key in said]
    if len(containers) > 1:
        raise BadServers(
            file, containers[1], f"the agents already stand under `{containers[0]}`; keep one of them"
        )
    container = containers[0] if containers else None
    form = Form(container, isinstance(said.get(container or ""), list))
    for key in said:
        if key in _NO_USE_TOP:
            form.notes.append(f"{file}: {key}: has no use here")
        elif key not in _TOP and container != "agent_servers":
            raise BadServers(file, key, f"there is no such key; there are: {', '.join(sorted(_TOP))}")
    form.mcp_servers = said.get("mcpServers")
    if container is not None:
        line = container == "agents"
        word = _word(said, "defaultPermissions", _WORDS_OF_ACPX, file)
        for name, key, entry in _entries(said[container], container, file):
            form.entries.append(_entry(name, key, entry, line, word, form, file))
    _check_names(form, file)
    form.default = _default(said, form, file)
    return form


def _entries(value: Any, container: str, file: str) -> list[tuple[str, str, Any]]:
    if isinstance(value, dict):
        return [(name, f"{container}.{name}", entry) for name, entry in cast("dict[str, Any]", value).items()]
    if not isinstance(value, list) or container != "servers":
        raise BadServers(file, container, "it must be an object with the names of the agents as keys")
    found: list[tuple[str, str, Any]] = []
    for number, entry in enumerate(cast("list[Any]", value)):
        key = f"{container}[{number}]"
        name = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise BadServers(file, f"{key}.name", "it is missing or no text")
        found.append(
            (name, key, {key: value for key, value in cast("dict[str, Any]", entry).items() if key != "name"})
        )
    return found


def _check_names(form: Form, file: str) -> None:
    seen: dict[str, str] = {}
    for entry in form.entries:
        name = entry.name
        if not name.strip() or name != name.strip() or not name.isprintable() or name.startswith("-"):
            raise BadServers(
                file,
                entry.key,
                f"{name!r} is no name: no blanks around it, no control characters, no `-` in front",
            )
        if (other := seen.get(identity(name))) is not None:
            same = name.casefold() == other.casefold()
            why = (
                "names count in any case" if same else f"both are names of {identity(name)}, keep one of them"
            )
            raise BadServers(file, entry.key, f"there already is {other!r}; {why}")
        seen[identity(name)] = name


def _entry(name: str, key: str, value: Any, line: bool, word: str | None, form: Form, file: str) -> FormEntry:
    if not isinstance(value, dict):
        raise BadServers(file, key, "it must be an object with `command`, `args`, ...")
    said: dict[str, Any] = {}
    given = cast("dict[str, Any]", value)
    for own, content in given.items():
        plain = _OTHER_NAMES.get(own, own)
        if own in _NO_USE:
            form.notes.append(f"{file}: {key}.{own}: has no use here")
        elif plain in KEYS:
            if plain in said:
                raise BadServers(file, f"{key}.{own}", f"it says the same as `{plain}`; keep one of them")
            said[plain] = content
        elif own not in _READ:
            raise BadServers(
                file, f"{key}.{own}", f"there is no such key; there are: {', '.join(sorted(KEYS))}"
            )
    _read_command(given, said, key, line, file)
    _read_type(given, said, key, form, file)
    if word is not None:
        said.setdefault("permissions", word)
    return FormEntry(name, key, said, _unattended(given, key, file))


def _read_command(given: dict[str, Any], said: dict[str, Any], key: str, line: bool, file: str) -> None:
    """acpx: `argv` alone, or a `command` without `args` that is a whole line."""
    if "argv" in given:
        argv = given["argv"]
        if "command" in given or "args" in given:
            raise BadServers(file, f"{key}.argv", "it stands alone, without `command` and `args`")
        if not isinstance(argv, list) or not argv:
            raise BadServers(file, f"{key}.argv", "it must be a list of texts, the program first")
        said["command"], said["args"] = argv[0], argv[1:]
    elif line and "args" not in given and isinstance(given.get("command"), str):
        try:
            words = shlex.split(given["command"])
        except ValueError as error:
            raise BadServers(file, f"{key}.command", f"it is no command line: {str(error).lower()}") from None
        if words:
            said["command"], said["args"] = words[0], words[1:]


def _read_type(given: dict[str, Any], said: dict[str, Any], key: str, form: Form, file: str) -> None:
    """Zed: its own command, or an agent of the registry, which the catalogue may know under that id."""
    kind = given.get("type", "custom")
    if kind not in ("custom", "registry", "extension"):
        raise BadServers(file, f"{key}.type", f"{kind!r} is none of custom, registry, extension")
    if kind != "custom" and "command" in said:
        raise BadServers(file, f"{key}.command", f"an agent of type {kind} has none")


def _unattended(given: dict[str, Any], key: str, file: str) -> str | None:
    """Agentao: what becomes of requests that nobody can answer, as a word or as `{"mode": word}`."""
    policy = given.get("nonInteractivePolicy")
    if isinstance(policy, dict):
        policy = cast("dict[str, Any]", policy).get("mode")
    return _word({"nonInteractivePolicy": policy}, "nonInteractivePolicy", _WORDS_OF_AGENTAO, file, f"{key}.")


def _word(said: dict[str, Any], key: str, words: dict[str, str], file: str, before: str = "") -> str | None:
    value = said.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or value not in words:
        raise BadServers(file, before + key, f"{value!r} is none of {', '.join(words)}")
    return words[value]


def _default(said: dict[str, Any], form: Form, file: str) -> tuple[str, str] | None:
    given = {key: said[key] for key in ("defaultServer", "defaultAgent") if said.get(key) is not None}
    for key, name in given.items():
        if not isinstance(name, str):
            raise BadServers(file, key, "it must be the name of an agent")
    if "defaultServer" in given:
        return "defaultServer", given["defaultServer"]
    agent = given.get("defaultAgent")
    if agent is None:
        return None
    if form.is_list and agent.casefold() not in {entry.name.casefold() for entry in form.entries}:
        # simse's word for an agent inside a server, which the protocol does not have.
        form.notes.append(f"{file}: defaultAgent: {agent!r} is none of the servers, so it has no use here")
        return None
    return "defaultAgent", agent
