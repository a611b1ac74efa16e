"""Files of the official registry: `registry.json` with many agents, or the `agent.json` of one.

What is taken over is a package in a pinned version, started by its runner. Archives are not downloaded.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from accord.client.servers.environment import literal
from accord.client.servers.forms import BadServers
from accord.client.servers.jsonc import BadJson, parse
from accord.client.servers.saving import read_whole
from accord.client.servers.values import read_env, read_text, read_texts

_ID: Final = re.compile(r"[a-z][a-z0-9-]*")
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_PACKAGE: Final = {
    "npx": re.compile(r"((?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*)@(\S+)"),
    "uvx": re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._-]+\])?)(?:==|@)(\S+)"),
}
_START: Final = {"npx": ["-y"], "uvx": []}


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
        """It as an entry of `acp.json`. Raises BadServers where no package of it can be started."""
        for runner in ("npx", "uvx"):
            if runner in self.distribution:
                return self._by(runner)
        raise BadServers(self.file, f"{self.key}distribution", self._only_binary())

    def _by(self, runner: str) -> dict[str, Any]:
        key = f"{self.key}distribution.{runner}"
        said = self.distribution[runner]
        if not isinstance(said, dict):
            raise BadServers(self.file, key, "it must be an object with `package`")
        given = cast("dict[str, Any]", said)
        package = read_text(given.get("package"), self.file, f"{key}.package", "a package")
        pinned = _PACKAGE[runner].fullmatch(package)
        if pinned is None:
            raise BadServers(
                self.file, f"{key}.package", f"{package!r} has no pinned version, so it is not taken"
            )
        if pinned[2] != self.version:
            raise BadServers(
                self.file, f"{key}.package", f"{package!r} is not of the version {self.version}, as it says"
            )
        args = read_texts(given.get("args"), self.file, f"{key}.args")
        entry: dict[str, Any] = {"command": runner, "args": [*_START[runner], package, *args]}
        env = read_env(given.get("env"), self.file, f"{key}.env")
        if env:
            entry["env"] = {name: literal(value) for name, value in env.items() if value is not None}
        entry["description"] = f"{self.name} {self.version}" + (
            f": {self.description}" if self.description else ""
        )
        return entry

    def _only_binary(self) -> str:
        archives = cast("dict[str, Any]", self.distribution.get("binary") or {})
        where = next((one.get("archive") for one in archives.values() if isinstance(one, dict)), None)  # pyright: ignore
        hint = f" from {where}" if isinstance(where, str) else ""
        return (
            f"{self.id} comes as an archive, which is not downloaded: get it{hint}, "
            f"then `accord agents add {self.id} -- PROGRAM ARGUMENTS`"
        )


def read_registry(path: Path) -> dict[str, RegistryAgent]:
    """The agents of the file by id. Raises BadServers, UsageError."""
    file = str(path)
    content = read_whole(path)
    if content is None:
        hint = " (an address has to be downloaded first)" if file.startswith(("http:/", "https:/")) else ""
        raise BadServers(file, "", f"there is no such file{hint}")
    try:
        value = parse(content.decode("utf-8-sig")).value
    except UnicodeDecodeError:
        raise BadServers(file, "", "it is not UTF-8 text") from None
    except BadJson as error:
        raise BadServers(file, "", f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadServers(file, "", "it is neither a registry.json nor an agent.json")
    said = cast("dict[str, Any]", value)
    if "agents" not in said:
        agent = _agent(said, file, "")
        return {agent.id: agent}
    if not isinstance(said["agents"], list):
        raise BadServers(file, "agents", "it must be a list")
    agents: dict[str, RegistryAgent] = {}
    for number, one in enumerate(cast("list[Any]", said["agents"])):
        agent = _agent(one, file, f"agents[{number}].")
        if agent.id in agents:
            raise BadServers(file, f"agents[{number}].id", f"{agent.id!r} stands twice")
        agents[agent.id] = agent
    return agents


def _agent(value: Any, file: str, key: str) -> RegistryAgent:
    said = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    texts = [read_text(said.get(name), file, key + name, "the agent") for name in ("id", "name", "version")]
    if not _ID.fullmatch(texts[0]):
        raise BadServers(
            file, f"{key}id", f"{texts[0]!r} is no id: small letters, digits and `-`, a letter first"
        )
    if not _VERSION.fullmatch(texts[2]):
        raise BadServers(file, f"{key}version", f"{texts[2]!r} is no version like 1.2.3")
    distribution = said.get("distribution")
    if not isinstance(distribution, dict) or not distribution:
        raise BadServers(file, f"{key}distribution", "it must be an object with binary, npx or uvx")
    description = said.get("description")
    text = read_text(description, file, f"{key}description", None) if description is not None else ""
    return RegistryAgent(texts[0], texts[1], texts[2], text, cast("dict[str, Any]", distribution), file, key)
