"""Read agents from the files of the official registry: `registry.json`, or the `agent.json` of one agent.

Only packages with a pinned version are used. This module downloads nothing.
"""

import difflib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from accord.errors import UsageError
from accord.frontend.agent_config.agent_environment import escape_references
from accord.frontend.agent_config.config_values import (
    BadAgentConfig,
    read_env,
    read_json,
    read_text,
    read_texts,
)
from accord.frontend.agent_config.jsonc import read_bytes
from accord.text_width import count_text

_ID: Final = re.compile(r"[a-z][a-z0-9-]*")
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:[-+.][0-9A-Za-z.+-]{1,64})?")
_SHA256: Final = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_MAX_SUGGESTIONS: Final = 3
_PACKAGE_PATTERNS: Final = {
    "npx": re.compile(r"((?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*)@(\S+)"),
    "uvx": re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._-]+\])?)(?:==|@)(\S+)"),
}
_RUNNER_ARGUMENTS: Final = {"npx": ["-y"], "uvx": []}


@dataclass(frozen=True, slots=True)
class AgentBinary:
    """The archive of an agent for one platform."""

    archive: str
    program: str
    """The path inside the archive of what is started."""
    args: tuple[str, ...]
    env: dict[str, str]
    sha256: str
    """In lower case hex; empty if the registry has none."""


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
    license: str = ""

    def platforms(self) -> list[str]:
        """The platforms for which it has an archive."""
        archives = self.distribution.get("binary")
        return sorted(cast("dict[str, Any]", archives)) if isinstance(archives, dict) else []

    def binary(self, platform: str) -> AgentBinary | None:
        """The archive for a platform such as `linux-x86_64`, or None. Raises BadAgentConfig."""
        archives = self.distribution.get("binary")
        value = cast("dict[str, Any]", archives).get(platform) if isinstance(archives, dict) else None
        if value is None:
            return None
        key = f"{self.key_prefix}distribution.binary.{platform}"
        members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        checksum = members.get("sha256", members.get("checksum"))
        match = _SHA256.fullmatch(checksum) if isinstance(checksum, str) else None
        if checksum is not None and match is None:
            raise BadAgentConfig(self.file, f"{key}.sha256", "it is not a SHA-256 checksum in hex")
        env = read_env(members.get("env"), self.file, f"{key}.env")
        return AgentBinary(
            read_text(members.get("archive"), self.file, f"{key}.archive", "an address"),
            read_text(members.get("cmd"), self.file, f"{key}.cmd", "the program"),
            tuple(read_texts(members.get("args"), self.file, f"{key}.args")),
            {name: value for name, value in env.items() if value is not None},
            "" if match is None else match[1].lower(),
        )

    def binary_entry(self, binary: AgentBinary, program: str) -> dict[str, Any]:
        """The entry for `acp.json` of an unpacked archive."""
        entry: dict[str, Any] = {"command": program, "args": list(binary.args)}
        if binary.env:
            entry["env"] = {name: escape_references(value) for name, value in binary.env.items()}
        return {**entry, "description": self._full_description()}

    def package(self, runner: str) -> str:
        """The package that a runner starts, with its version."""
        return str(cast("dict[str, Any]", self.distribution[runner])["package"])

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
        match = _PACKAGE_PATTERNS[runner].fullmatch(package)
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
        return {**entry, "description": self._full_description()}

    def _full_description(self) -> str:
        return f"{self.name} {self.version}" + (f": {self.description}" if self.description else "")

    def _archive_hint(self) -> str:
        return (
            f"{self.id} is an archive, not a package; run "
            f"`accord agents install {self.id} --registry {shlex.quote(self.file)}`"
        )


def find_registry_agent(agents: dict[str, RegistryAgent], name: str, source: str) -> RegistryAgent:
    """Return an agent by its id. Raises UsageError with suggestions."""
    if name in agents:
        return agents[name]
    suggestions = difflib.get_close_matches(name, agents, n=_MAX_SUGGESTIONS)
    hint = (
        f"; did you mean {', '.join(suggestions)}?"
        if suggestions
        else f" among its {count_text(len(agents), 'agent')}"
    )
    raise UsageError(f"{source} has no agent {name!r}{hint}")


def read_registry(path: Path, source: str | None = None) -> dict[str, RegistryAgent]:
    """Read the agents of a registry file, by id. Raises BadAgentConfig or UsageError.

    `source` is the address it was downloaded from, for messages.
    """
    file = source or str(path)
    content = read_bytes(path)
    if content is None:
        hint = "; download it first and name the file" if file.startswith(("http:/", "https:/")) else ""
        raise BadAgentConfig(file, "", f"the file does not exist{hint}")
    value = read_json(content, file)
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
    license = members.get("license")
    return RegistryAgent(
        id,
        name,
        version,
        text,
        cast("dict[str, Any]", distribution),
        file,
        key_prefix,
        license if isinstance(license, str) else "",
    )
