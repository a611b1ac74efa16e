"""The catalog of known agents: how to start each, which API keys it needs, and whether it is installed.

The data is in `catalog.json` next to this file. `launched_program` finds the program that a command line
starts, behind `env`, interpreters, package runners and links. Nothing here runs or fetches anything.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Any, Final, Literal, NamedTuple, cast

import msgspec

BUILT_IN: Final = "accord"
"""The name of the coding agent in this package."""
BUILT_IN_KEYS: Final[tuple[str, ...]] = (
    "*_API_KEY", "AWS_BEARER_TOKEN_BEDROCK",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy",
)  # fmt: skip
"""The keys of the built-in agent: it uses every provider that the user configured, by `{NAME}_API_KEY`.

A proxy may have a password in its address.
"""


@dataclass(frozen=True, slots=True)
class LaunchedProgram:
    """What a command line starts."""

    names: frozenset[str] = frozenset()
    """The names of the program: as written, and those of the files that links lead to."""
    packages: frozenset[str] = frozenset()
    """The npm or PyPI packages that contain it, without versions."""
    module: str = ""
    """The Python module that `python -m` runs."""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAgent:
    """One agent of the catalog."""

    id: str
    name: str
    command: tuple[str, ...]
    """The command that starts the installed agent."""
    npx: str | None = None
    """The package for `npx`, which fetches and starts the agent."""
    uvx: str | None = None
    """The package for `uvx`, which fetches and starts the agent."""
    install: str | None = None
    aliases: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    """Other packages and programs of the same agent, such as its former names."""
    modules: tuple[str, ...] = ()
    """The top-level Python modules that start it with `python -m`."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: tuple[str, ...] = ()
    """The environment variables with credentials that this agent may get."""
    parts: tuple[str, ...] = ()
    """Files; at least one must exist if the agent is installed."""
    remark: str = ""

    def executable(self, path: str | None = None) -> str | None:
        """The path of the program, searched on PATH or on `path`; None if the agent is not installed."""
        if self.parts and not any(os.path.exists(os.path.expanduser(part)) for part in self.parts):
            return None
        return shutil.which(self.command[0], path=path)

    @property
    def runner_command(self) -> tuple[str, ...] | None:
        """The command that fetches and starts the agent, if it comes as a package."""
        if self.npx is not None:
            return ("npx", "-y", self.npx, *self.command[1:])
        return None if self.uvx is None else ("uvx", self.uvx, *self.command[1:])

    @property
    def install_hint(self) -> str:
        """How to install the agent, as a text for the user."""
        install = self.install
        if install is None and self.npx is not None:
            install = f"npm install -g {self.npx}"
        if install is None and self.uvx is not None:
            install = f"uv tool install {self.uvx}"
        if install is None:
            return f"install it as its documentation says, so that `{self.command[0]}` is on PATH"
        if self.runner_command is None:
            return f"`{install}`"
        return f"`{install}`, or `accord agents add {self.id}` to let {self.runner_command[0]} fetch it"

    def is_started_by(self, program: LaunchedProgram) -> bool:
        """Whether a program is this agent: by its name, its package or its Python module."""
        if program.module.partition(".")[0] in self.modules:
            return True
        if not program.packages.isdisjoint((self.npx, self.uvx, *self.older)):
            return True
        if self.command[0] not in program.names:
            return not program.names.isdisjoint(self.older)
        # A program can do more than start the agent: `docker` can be anything, `docker agent` is the agent.
        return len(self.command) < 3 or program.arguments[:1] == self.command[1:2]


class _CatalogFile(msgspec.Struct):
    keyGroups: dict[str, list[str]]  # noqa: N815 - as in the file
    agents: list[KnownAgent]


@cache
def catalog() -> tuple[KnownAgent, ...]:
    """All known agents, in the order of the file."""
    # `importlib.resources` would load modules that a run does not need; msgspec cannot run from a zip file.
    content = Path(__file__).with_name("catalog.json").read_bytes()
    data = msgspec.json.decode(content, type=_CatalogFile)
    return tuple(_with_keys(agent, data.keyGroups) for agent in data.agents)


def find_known_agent(name: str) -> KnownAgent | None:
    """The known agent with this id or alias; ignores case."""
    folded = name.casefold()
    return next((agent for agent in catalog() if folded in (agent.id, *agent.aliases)), None)


def canonical_name(name: str) -> str:
    """The id of the known agent with this name or alias, otherwise the name in lower case."""
    agent = find_known_agent(name)
    return name.casefold() if agent is None else agent.id


def known_agent_of(command: Sequence[str]) -> KnownAgent | None:
    """The known agent that this command starts, directly or through an interpreter or a package runner."""
    program = launched_program(command)
    return next((agent for agent in catalog() if agent.is_started_by(program)), None)


def starts_built_in(command: Sequence[str]) -> bool:
    """Whether a command starts the coding agent of this package."""
    program = launched_program(command)
    is_module = program.module in (BUILT_IN, f"{BUILT_IN}.cli")
    return is_module or BUILT_IN in program.names or BUILT_IN in program.packages


def starts_coding_agent(command: Sequence[str]) -> bool:
    """Whether a command is `accord agent`, or its second distribution."""
    program = launched_program(command)
    if f"{BUILT_IN}-agent" in program.names | program.packages:
        return True
    return program.arguments[:1] == ("agent",) and starts_built_in(command)


def _with_keys(agent: KnownAgent, groups: Mapping[str, list[str]]) -> KnownAgent:
    keys: dict[str, None] = {}
    for key in agent.keys:
        keys.update(dict.fromkeys(groups[key[1:]] if key.startswith("@") else (key,)))
    return replace(agent, keys=tuple(keys))


_MAX_DEPTH: Final = 8
_MAX_FOLDERS: Final = 6
_MAX_PACKAGE_BYTES: Final = 256 * 1024
_SUFFIXES: Final = frozenset((".exe", ".cmd", ".bat", ".ps1", ".js", ".mjs", ".cjs", ".ts", ".mts", ".py"))
_PYTHON: Final = re.compile(r"(?:python|pypy)[0-9.]*t?|py")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_MODULE_OPTION: Final = re.compile(r"-[A-Za-z]*m")
_ATTACHED_MODULE: Final = re.compile(r"-[bBdEiIOPqsSuvx]*m([A-Za-z_][\w.]*)")


class _Launcher(NamedTuple):
    """A program that starts another one."""

    starts: Literal["command", "script", "package"]
    value_options: tuple[str, ...] = ()
    """Options whose value is the next word."""
    package_options: tuple[str, ...] = ()
    """Options whose value is the package to start from."""


_ENV: Final = _Launcher("command", ("-u", "--unset", "-C", "--chdir"))
_PYTHON_LAUNCHER: Final = _Launcher("script", ("-X", "-W"))
_BUN: Final = _Launcher("script", ("-r", "--preload", "--cwd", "--config", "--env-file"))
_NODE: Final = _Launcher("script", ("-r", "--require", "--import", "--loader", "-C", "--conditions"))
_NPX: Final = _Launcher("package", ("-w", "--workspace", "--prefix", "--cache"), ("-p", "--package"))
_UV_OPTIONS: Final = (
    "--python", "-p", "--with", "-w", "--with-editable", "--with-requirements", "--directory", "--project",
    "--index", "--index-url", "-i", "--extra-index-url", "--env-file", "--extra", "--group", "--cache-dir",
    "--exclude-newer", "--package", "--config-file",
)  # fmt: skip
_LAUNCHERS: Final[dict[tuple[str, ...], _Launcher]] = {
    ("env",): _ENV,
    ("nohup",): _Launcher("command"),
    ("setsid",): _Launcher("command"),
    ("nice",): _Launcher("command", ("-n", "--adjustment")),
    ("stdbuf",): _Launcher("command", ("-i", "-o", "-e")),
    ("accord", "trace", "record"): _Launcher("command", ("-o", "--output", "--env")),
    ("accord", "proxy"): _Launcher("command", ("--use", "--env")),
    ("node",): _NODE,
    ("nodejs",): _NODE,
    ("tsx",): _NODE,
    ("bun", "run"): _BUN,
    ("bun", "--bun", "run"): _BUN,
    ("bun", "x"): _Launcher("package", (), ("-p", "--package")),
    ("bun",): _BUN,
    ("bunx",): _Launcher("package", (), ("-p", "--package")),
    ("deno", "run"): _Launcher("script", ("-c", "--config", "--import-map", "--lock", "--cert")),
    ("deno",): _Launcher("script"),
    ("python",): _PYTHON_LAUNCHER,
    ("uv", "run"): _Launcher("command", _UV_OPTIONS),
    ("uv", "tool", "run"): _Launcher("package", _UV_OPTIONS, ("--from",)),
    ("uvx",): _Launcher("package", _UV_OPTIONS, ("--from",)),
    ("pipx", "run"): _Launcher("package", ("--python", "--pip-args", "--index-url", "-i"), ("--spec",)),
    ("npx",): _NPX,
    ("npm", "exec"): _NPX,
    ("npm", "x"): _NPX,
    ("pnpm", "dlx"): _Launcher("package", (), ("--package",)),
    ("pnpm", "exec"): _Launcher("command"),
    ("yarn", "dlx"): _Launcher("package", (), ("-p", "--package")),
}


def launched_program(command: Sequence[str]) -> LaunchedProgram:
    """The program that a command line starts. Nothing is known of an incomplete or odd command line."""
    words = tuple(command)
    for _ in range(_MAX_DEPTH):
        if not words:
            break
        names = _with_launcher_name(words)
        found = next((key for key in _LAUNCHERS if names[: len(key)] == key), None)
        if found is None:
            return _file_program(shutil.which(words[0]) or words[0], PurePath(words[0]).name, words[1:])
        launcher = _LAUNCHERS[found]
        rest = _skip_options(launcher, words[len(found) :])
        if rest.module:
            return LaunchedProgram(module=rest.module, arguments=rest.words)
        if launcher.starts == "command":
            words = rest.words
        elif launcher.starts == "script":
            return _script_program(rest.words)
        else:
            packages = [*rest.packages, *rest.words[: 0 if rest.packages else 1]]
            return LaunchedProgram(
                packages=frozenset(map(_without_version, packages)), arguments=rest.words[1:]
            )
    return LaunchedProgram()


def _with_launcher_name(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words, with the first one as it is written in the table."""
    name = _plain_name(words[0])
    return ("python" if _PYTHON.fullmatch(name) else name, *words[1:])


class _Rest(NamedTuple):
    """What follows the options of a launcher."""

    words: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    module: str = ""


def _skip_options(launcher: _Launcher, words: tuple[str, ...]) -> _Rest:
    packages: list[str] = []
    position = 0
    while position < len(words):
        word, following = words[position], words[position + 1 : position + 2]
        name, equals, value = word.partition("=")
        if word == "--":
            position += 1
            break
        if not word.startswith("-") and not (launcher.starts == "command" and _ASSIGNMENT.fullmatch(word)):
            break
        if name in ("-S", "--split-string"):  # of `env`
            text = value if equals else "".join(following)
            return _skip_options(launcher, (*_split(text), *words[position + (1 if equals else 2) :]))
        if launcher is _ENV and word.startswith("-S"):
            return _skip_options(launcher, (*_split(word[2:]), *words[position + 1 :]))
        if launcher is _PYTHON_LAUNCHER and (attached := _ATTACHED_MODULE.fullmatch(word)):
            return _Rest(words[position + 1 :], (), attached[1])
        if _MODULE_OPTION.fullmatch(word) and not launcher.package_options:
            return _Rest(words[position + 2 :], (), "".join(following))
        takes_value = not equals and name in (*launcher.value_options, *launcher.package_options)
        if name in launcher.package_options:
            packages.append(value if equals else "".join(following))
        position += 2 if takes_value else 1
    return _Rest(words[position:], tuple(packages))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _script_program(words: tuple[str, ...]) -> LaunchedProgram:
    if not words:
        return LaunchedProgram()
    script = words[0]
    if script.startswith(("npm:", "jsr:")):  # of `deno`
        return LaunchedProgram(packages=frozenset((_without_version(script[4:]),)), arguments=words[1:])
    return _file_program(script, PurePath(script).name, words[1:])


def _file_program(path: str, name: str, arguments: tuple[str, ...]) -> LaunchedProgram:
    """The program in a file: by its name, by the file that a link leads to, and by their packages."""
    path = os.path.expanduser(path)
    target = os.path.realpath(path)
    packages = {package for file in (path, target) if (package := _package_in_path(file))}
    if not packages and (package := _package_of_script(target)):
        packages.add(package)
    return LaunchedProgram(
        frozenset((_plain_name(name), _plain_name(target))), frozenset(packages), "", arguments
    )


def _plain_name(path: str) -> str:
    """The name of a program, without the suffix of a script or a Windows program."""
    name = PurePath(path).name
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in _SUFFIXES else name


def _package_in_path(path: str) -> str:
    """The npm package that contains a file, by its folders."""
    parts = PurePath(path).parts
    if "node_modules" not in parts:
        return ""
    start = len(parts) - parts[::-1].index("node_modules")
    package = parts[start : start + (2 if parts[start][:1] == "@" else 1)] if start < len(parts) else ()
    return "" if package[:1] == (".bin",) else "/".join(package)


def _package_of_script(path: str) -> str:
    """The name in the nearest `package.json` above a JavaScript file."""
    if os.path.splitext(path)[1] not in (".js", ".mjs", ".cjs", ".ts", ".mts"):
        return ""
    for folder in list(Path(path).parents)[:_MAX_FOLDERS]:
        file = folder / "package.json"
        try:
            with open(file, "rb") as stream:
                members: Any = json.loads(stream.read(_MAX_PACKAGE_BYTES))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):
            return ""
        name = cast("dict[str, Any]", members).get("name") if isinstance(members, dict) else None
        if isinstance(name, str):
            return name
    return ""


def _without_version(package: str) -> str:
    name = re.split(r"[=<>~!\[]", package, maxsplit=1)[0].strip()
    return name[:1] + name[1:].split("@")[0]
