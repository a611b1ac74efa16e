"""One file of agents: found, read, and checked key by key. Everything wrong with it is said as file, key and reason."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from accord.cleaning import visible
from accord.client.catalogue import BUILT_IN, identity, known
from accord.client.servers.forms import BadServers, Form, FormEntry, read_form
from accord.client.servers.jsonc import BadJson, parse
from accord.client.servers.mcp import McpEntry, read_mcp_servers
from accord.client.servers.server import Origin, Server
from accord.client.servers.values import read_count, read_env, read_text, read_texts
from accord.paths import config_dir
from accord.policy.rules import BadRules, Rules, Word, read_permissions

FILE_NAME: Final = "acp.json"
LARGEST: Final = 1024 * 1024

_MOST_RESTARTS: Final = 100
_LONGEST_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class ServersFile:
    """A file and the agents in it."""

    path: Path
    content: bytes
    """The bytes that were read: what is trusted and what is run are the same."""
    form: Form
    servers: tuple[Server, ...]
    mcp: tuple[McpEntry, ...] = ()
    """For the sessions of every agent."""

    def speaks_of(self, name: str) -> bool:
        """Whether an agent of that name stands in it."""
        return any(identity(server.name) == identity(name) for server in self.servers)


def user_file() -> Path:
    """The user's own file. It need not exist."""
    return config_dir() / FILE_NAME


def project_file(cwd: Path) -> Path | None:
    """The project's file: in this folder, or above it up to the root of its git repository."""
    folders = [cwd, *cwd.parents]
    root = next((number for number, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    found = (folder / FILE_NAME for folder in folders[: root + 1])
    return next((path for path in found if os.path.lexists(path)), None)


def read_file(path: Path, origin: Origin) -> ServersFile | None:
    """Read it; None if there is none. Raises BadServers, BadRules."""
    content = _bytes(path)
    return None if content is None else read_content(path, content, origin)


def read_content(path: Path, content: bytes, origin: Origin) -> ServersFile:
    """The agents in this content of the file. Raises BadServers, BadRules."""
    file = str(path)
    try:
        value = parse(content.decode("utf-8-sig")).value
    except UnicodeDecodeError:
        raise BadServers(file, "", "it is not UTF-8 text") from None
    except BadJson as error:
        raise BadServers(file, "", f"it is not JSON: {error}") from None
    form = read_form(value, file)
    folder = str(path.absolute().parent)
    servers = tuple(_Reading(file, folder, entry, origin).server() for entry in form.entries)
    mcp = read_mcp_servers(form.mcp_servers, file, "mcpServers", folder)
    return ServersFile(path, content, form, servers, mcp)


def _bytes(path: Path) -> bytes | None:
    try:
        # A pipe in its place must not keep us waiting.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadServers(str(path), "", "it is no ordinary file")
            content = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        if os.path.islink(path):
            raise BadServers(str(path), "", f"it is a link to nothing ({error.strerror})") from None
        return None
    except OSError as error:
        raise BadServers(str(path), "", f"it cannot be read ({error.strerror})") from None
    if len(content) > LARGEST:
        raise BadServers(str(path), "", f"it is larger than {LARGEST // 1024} KiB")
    return content


class _Reading:
    """The reading of one entry."""

    def __init__(self, file: str, folder: str, entry: FormEntry, origin: Origin) -> None:
        self.file = file
        self.folder = folder
        self.entry = entry
        self.origin: Origin = origin

    def server(self) -> Server:
        said, name = self.entry.said, self.entry.name
        if self._is_built_in:
            name = BUILT_IN
        rules = self._permissions(said.get("permissions"))
        from_project = self.origin == "project"
        key = self.entry.key
        return Server(
            name=name,
            origin=self.origin,
            place=f"{self.file}: {key}",
            folder=self.folder,
            command=self._command(),
            env=read_env(said.get("env"), self.file, f"{key}.env", removable=True),
            cwd=self._cwd(said.get("cwd")),
            timeout=self._seconds("timeoutMs"),
            startup=self._seconds("startupTimeoutMs"),
            max_restarts=self._count("maxRestarts", 0, _MOST_RESTARTS),
            permissions=None if from_project else rules,
            project_permissions=rules if from_project else None,
            unattended=cast("Word | None", self.entry.unattended),
            mcp=read_mcp_servers(said.get("mcpServers"), self.file, f"{key}.mcpServers", self.folder),
            description=self._description(said.get("description")),
        )

    @property
    def _is_built_in(self) -> bool:
        return self.entry.name.casefold() == BUILT_IN

    def _command(self) -> tuple[str, ...]:
        command, args = self.entry.said.get("command"), self.entry.said.get("args")
        if command is None:
            if known(self.entry.name) is None and not self._is_built_in:
                raise self._bad(
                    "command", "it is missing; only agents that `accord agents list` knows go without"
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
        milliseconds = self._count(key, 1, _LONGEST_MS)
        return None if milliseconds is None else milliseconds / 1000

    def _count(self, key: str, least: int, most: int) -> int | None:
        return read_count(self.entry.said.get(key), self.file, f"{self.entry.key}.{key}", least, most)

    def _permissions(self, value: Any) -> Rules | None:
        if value is None:
            return None
        try:
            return read_permissions(value, file=self.file, key=f"{self.entry.key}.permissions")
        except BadRules as error:
            raise BadRules(visible(str(error))) from None

    def _bad(self, key: str, reason: str) -> BadServers:
        return BadServers(self.file, f"{self.entry.key}.{key}", reason)
