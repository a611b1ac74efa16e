"""The language servers that Accord knows, the user's settings for them, and where their programs are.

A language server can run code of the project. So a program inside the project is used only if the user named
the project, and servers get settings that keep them from running the project's code.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from accord.coder.user_config import ConfigError, convert
from accord.policy.installed_program import installed_program, safe_search_path


class LspServerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[lsp.servers.NAME]`: another command for a known server, or a server of your own."""

    command: tuple[str, ...] = ()
    """The program and its arguments."""
    suffixes: tuple[str, ...] = ()
    """The ends of the names of its files, such as `.zig`. A server of your own needs them."""
    enabled: bool = True
    """Whether it is used."""


class LspConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[lsp]`: errors from language servers after an edit. `lsp = true` means all defaults."""

    enabled: bool = True
    """Whether language servers are used."""
    seconds: Annotated[float, Meta(gt=0, le=60)] = 5.0
    """How long an edit waits for them at most."""
    trusted_projects: tuple[str, ...] = ()
    """Projects whose own programs are used: those in `node_modules/.bin`, `.venv/bin` and `venv/bin`."""
    servers: dict[str, LspServerConfig] = {}


def lsp_config(mapping: Mapping[str, Any], file: Path | str) -> LspConfig:
    """The settings of the user's config file. Raises ConfigError."""
    value = mapping.get("lsp", False)
    if isinstance(value, bool):
        return LspConfig(enabled=value)
    config = convert(value, LspConfig, file, "lsp")
    known = {server.name for server in SERVERS}
    for name, server in config.servers.items():
        if name not in known and server.enabled and not (server.command and server.suffixes):
            reason = f"a server of your own needs command and suffixes; known are: {', '.join(sorted(known))}"
            raise ConfigError(file, f"lsp.servers.{name}", reason)
    return config


@dataclass(frozen=True, slots=True)
class LanguageServer:
    """One kind of language server."""

    name: str
    languages: Mapping[str, str]
    """The ids of the languages, by the suffix of their files."""
    command: tuple[str, ...]
    markers: tuple[str, ...] = ()
    """Files of the folder that the server works in."""
    environment: Mapping[str, str] | None = None
    """Variables in a project that the user has not named: they keep it from choosing programs."""
    options: Callable[["ServerProgram"], dict[str, Any] | None] = lambda program: {}
    """The options of `initialize`. None: without running the project's code it cannot work."""

    def handles(self, path: str) -> bool:
        return os.path.splitext(path)[1].lower() in self.languages


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A server and its program, for one project."""

    server: LanguageServer
    command: tuple[str, ...]
    trusted: bool
    """Whether it may run the project's programs and code."""
    search_path: str = ""
    """PATH, without the project's folders."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that it needs."""
        if self.trusted:
            return {}
        return {"PATH": self.search_path, **(self.server.environment or {})}


def _typescript_options(program: ServerProgram) -> dict[str, Any] | None:
    """The server loads TypeScript from the project, unless it is told another one."""
    if program.trusted:
        return {}
    folder = Path(os.path.realpath(program.command[0])).parent
    for parent in (folder, *folder.parents):
        library = parent / "node_modules" / "typescript" / "lib" / "tsserver.js"
        if library.is_file():
            return {"tsserver": {"path": str(library)}, "disableAutomaticTypingAcquisition": True}
    return None


def _rust_options(program: ServerProgram) -> dict[str, Any]:
    if program.trusted:
        return {}
    off = {"enable": False}
    return {"cargo": {"buildScripts": off}, "procMacro": off, "checkOnSave": False}


_TYPESCRIPT: Final = {
    ".ts": "typescript",
    ".mts": "typescript",
    ".cts": "typescript",
    ".tsx": "typescriptreact",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".jsx": "javascriptreact",
}
_C: Final = {
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "cpp"),
}
_PYTHON: Final = {".py": "python", ".pyi": "python"}
_PYTHON_MARKERS: Final = ("pyproject.toml", "pyrightconfig.json", "setup.py", "setup.cfg", "requirements.txt")

SERVERS: Final = (
    LanguageServer("pyright", _PYTHON, ("pyright-langserver", "--stdio"), _PYTHON_MARKERS),
    LanguageServer("ruff", _PYTHON, ("ruff", "server"), _PYTHON_MARKERS),
    LanguageServer(
        "typescript",
        _TYPESCRIPT,
        ("typescript-language-server", "--stdio"),
        ("tsconfig.json", "jsconfig.json", "package.json"),
        options=_typescript_options,
    ),
    LanguageServer(
        "gopls", {".go": "go"}, ("gopls",), ("go.work", "go.mod"), environment={"GOTOOLCHAIN": "local"}
    ),
    LanguageServer(
        "rust-analyzer",
        {".rs": "rust"},
        ("rust-analyzer",),
        ("Cargo.toml",),
        # They come before `.cargo/config.toml`, which can name programs. Offline, cargo runs none to sign in.
        {"RUSTC": "rustc", "RUSTC_WRAPPER": "", "RUSTC_WORKSPACE_WRAPPER": "", "CARGO_NET_OFFLINE": "true"},
        _rust_options,
    ),
    LanguageServer("clangd", _C, ("clangd",), ("compile_commands.json", ".clangd")),
)


def configured_servers(config: LspConfig) -> Iterator[LanguageServer]:
    """The servers in use: the known ones with the user's commands, and those of the user."""
    known = {server.name for server in SERVERS}
    for server in SERVERS:
        setting = config.servers.get(server.name, LspServerConfig())
        if setting.enabled:
            languages = _languages(setting.suffixes) or server.languages
            yield LanguageServer(
                server.name,
                languages,
                setting.command or server.command,
                server.markers,
                server.environment,
                server.options,
            )
    for name, setting in config.servers.items():
        if name not in known and setting.enabled:
            yield LanguageServer(name, _languages(setting.suffixes), setting.command)


def _languages(suffixes: Sequence[str]) -> dict[str, str]:
    return {f".{suffix.lstrip('.').lower()}": suffix.lstrip(".").lower() for suffix in suffixes}


_PROGRAM_FOLDERS: Final = ("node_modules/.bin", ".venv/bin", "venv/bin", ".venv/Scripts", "venv/Scripts")


def is_trusted(config: LspConfig, roots: Sequence[str]) -> bool:
    """Whether the user named the project of these folders."""
    trusted = [os.path.realpath(os.path.expanduser(path)) for path in config.trusted_projects]
    return bool(roots) and all(_is_below(os.path.realpath(root), trusted) for root in roots)


def find_program(
    server: LanguageServer, roots: Sequence[str], *, trusted: bool, search_path: str | None = None
) -> ServerProgram | None:
    """The program of a server: of a trusted project, else of the search path; never one inside the project.

    None if it is not installed.
    """
    name, arguments = server.command[0], server.command[1:]
    if trusted and os.path.basename(name) == name:
        for root in roots:
            for folder in _PROGRAM_FOLDERS:
                if found := shutil.which(name, path=os.path.join(root, folder)):
                    return ServerProgram(server, (found, *arguments), trusted)
    outside = () if trusted else roots
    found = installed_program(name, outside, search_path)
    if found is None:
        return None
    return ServerProgram(server, (found, *arguments), trusted, safe_search_path(outside, search_path))


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def search_report(config: LspConfig, roots: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """The servers that would be used, with their programs, and the names of those that are not installed."""
    found: list[str] = []
    missing: list[str] = []
    for server in configured_servers(config):
        program = find_program(server, roots, trusted=is_trusted(config, roots))
        if program is None:
            missing.append(server.name)
        elif server.options(program) is None:
            missing.append(f"{server.name} (no TypeScript beside it)")
        else:
            found.append(f"{server.name} ({program.command[0]})")
    return found, missing


def python_settings(program: ServerProgram, root: str) -> dict[str, Any]:
    """The interpreter for pyright, which runs it: that of a trusted project or of the active environment."""
    folders = [os.path.join(root, name) for name in (".venv", "venv")] if program.trusted else []
    active = os.environ.get("VIRTUAL_ENV", "")
    if active and (program.trusted or not _is_below(os.path.realpath(active), [os.path.realpath(root)])):
        folders.append(active)
    for folder in folders:
        for name in ("bin/python", "Scripts/python.exe"):
            if os.path.isfile(interpreter := os.path.join(folder, name)):
                return {"pythonPath": interpreter}
    return {}
