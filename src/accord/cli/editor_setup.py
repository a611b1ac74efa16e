"""`accord agents setup EDITOR`: settings locations, snippets, merging.

Imported on first use.
"""

import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Final

from accord.cli.command_parser import Parser
from accord.errors import UsageError
from accord.frontend.agent_config.jsonc import (
    BadJson,
    JsonNode,
    held,
    parse,
    read_whole,
    remove_member,
    set_member,
    write_whole,
)

# MERGED cli.editors.places: Where editors keep their settings, on each system.


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides where a file is: the system, the home folder, the environment."""

    system: str
    """As `sys.platform` says it: linux, darwin, win32..."""
    home: str
    environ: Mapping[str, str]

    def zed(self) -> PurePath:
        """Zed's settings."""
        if self.system == "win32":
            return self._roaming() / "Zed" / "settings.json"
        if self.system == "darwin":
            return self._home() / ".config" / "zed" / "settings.json"
        flatpak = self._folder("FLATPAK_XDG_CONFIG_HOME")
        return (flatpak or self._config()) / "zed" / "settings.json"

    def jetbrains(self) -> PurePath:
        """The file of custom agents for all JetBrains IDEs."""
        return self._home() / ".jetbrains" / "acp.json"

    def vscode(self) -> PurePath:
        """The user settings of VS Code itself; its relatives keep theirs elsewhere."""
        if self.system == "win32":
            return self._roaming() / "Code" / "User" / "settings.json"
        if self.system == "darwin":
            return self._home() / "Library" / "Application Support" / "Code" / "User" / "settings.json"
        return self._config() / "Code" / "User" / "settings.json"

    def _home(self) -> PurePath:
        return PureWindowsPath(self.home) if self.system == "win32" else PurePosixPath(self.home)

    def _roaming(self) -> PurePath:
        return PureWindowsPath(self.environ.get("APPDATA") or f"{self.home}\\AppData\\Roaming")

    def _config(self) -> PurePath:
        return self._folder("XDG_CONFIG_HOME") or self._home() / ".config"

    def _folder(self, variable: str) -> PurePath | None:
        # The XDG rules: a path that is not absolute does not count.
        text = self.environ.get(variable, "")
        return PurePosixPath(text) if text.startswith("/") else None


def this_machine() -> Machine:
    """The one we run on."""
    import os
    import sys

    return Machine(sys.platform, str(Path.home()), os.environ)


# MERGED cli.editors.snippets: What to paste where settings are program code, or what to type where there are none.

_CODECOMPANION = """\
-- codecompanion.nvim
require("codecompanion").setup({
  adapters = {
    acp = {
      @key@ = function()
        return require("codecompanion.adapters").extend("goose", {
          name = @name@,
          formatted_name = @title@,
          commands = { default = { @argv@ } },
        })
      end,
    },
  },
  interactions = { chat = { adapter = @name@ } },
})
"""

_AVANTE = """\
-- avante.nvim: the agent gets PATH and what stands in env, nothing else; name the key of your model there
require("avante").setup({
  provider = @name@,
  acp_providers = {
    [@name@] = {
      command = @program@,
      args = { @args@ },
      env = { @env@ },
    },
  },
})
"""

_AGENTIC = """\
-- agentic.nvim
require("agentic").setup({
  provider = @name@,
  acp_providers = {
    [@name@] = { name = @title@, command = @program@, args = { @args@ }, env = {} },
  },
})
"""

PLUGINS: Mapping[str, str] = {"codecompanion": _CODECOMPANION, "avante": _AVANTE, "agentic": _AGENTIC}

_EMACS = """\
;; agent-shell; if your agent-shell-agent-configs is a function, add the config to what it returns
(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier '@symbol@
    :mode-line-name @title@
    :buffer-name @title@
    :shell-prompt @prompt@
    :shell-prompt-regexp @prompt@
    :client-maker
    (lambda (buffer)
      (acp-make-client :command @program@
                       :command-params '(@args@)
                       :environment-variables nil
                       :context-buffer buffer)))))
"""


def neovim(plugin: str, name: str, command: Sequence[str], passed: Sequence[str]) -> str:
    """Lua for one of the plugins. `passed` are the variables the agent needs where nothing is inherited."""
    env = ", ".join(f'{variable} = os.getenv("{variable}")' for variable in passed)
    return _filled(
        PLUGINS[plugin],
        key=f"[{_quoted(name)}]",
        name=_quoted(name),
        title=_quoted(_title(name)),
        argv=", ".join(map(_quoted, command)),
        program=_quoted(command[0]),
        args=", ".join(map(_quoted, command[1:])),
        env=env,
    )


def emacs(name: str, command: Sequence[str]) -> str:
    """Lisp for agent-shell."""
    return _filled(
        _EMACS,
        symbol="".join(char if char.isalnum() or char == "-" else "-" for char in name),
        title=_quoted(_title(name)),
        prompt=_quoted(f"{_title(name)}> "),
        program=_quoted(command[0]),
        args=" ".join(map(_quoted, command[1:])),
    )


def toad(name: str, command: Sequence[str]) -> str:
    """The command line. Toad runs one text through a shell, so it is quoted twice."""
    return f"toad acp {shlex.quote(shlex.join(command))} --title {shlex.quote(_title(name))}\n"


def _filled(template: str, **values: str) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]


def _quoted(text: str) -> str:
    """A text in Lua and in Emacs Lisp, which escape these alike."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# MERGED cli.editors.setup: `accord agents setup EDITOR`: prints what makes an editor launch `accord agent`, or merges it into the editor's settings.
#
# A merge touches one entry and in it only what launches the agent. Comments, order and everything else in the file stay.


@dataclass(frozen=True, slots=True)
class EditorSettings:
    """An editor whose settings are a JSON file."""

    title: str
    place: Callable[[Machine], PurePath]
    key: str
    name: str
    """What the agent is called there."""
    tag: tuple[tuple[str, str], ...] = ()
    """What an entry needs beside the command."""
    plain: bool = False
    """Whether the file is JSON and nothing more, without comments."""

    def entry(self, command: Sequence[str]) -> dict[str, Any]:
        return {**dict(self.tag), "command": command[0], "args": list(command[1:])}

    def merged(self, text: str, name: str, command: Sequence[str]) -> str:
        """The text with the entry in it; what else stands in an entry of that name stays."""
        there = self._entry(text, name)
        wanted = self.entry(command)
        if there is None:
            return set_member(text, [self.key, name], {**wanted, "env": {}}, plain=self.plain)
        for key, value in wanted.items():
            text = set_member(text, [self.key, name, key], value, plain=self.plain)
        return text

    def without(self, text: str, name: str) -> str:
        """The text without the entry."""
        if self._entry(text, name) is None:
            return text
        return remove_member(text, [self.key], name, plain=self.plain)

    def _entry(self, text: str, name: str) -> JsonNode | None:
        if not text.strip("\ufeff \t\r\n"):
            return None
        agents = parse(text, plain=self.plain).get(self.key)
        return None if agents is None else agents.get(name)


FILES: Final = {
    "zed": EditorSettings("Zed", Machine.zed, "agent_servers", "accord", (("type", "custom"),)),
    "jetbrains": EditorSettings("JetBrains IDEs", Machine.jetbrains, "agent_servers", "Accord", plain=True),
    "vscode": EditorSettings("VS Code with the ACP Client extension", Machine.vscode, "acp.agents", "Accord"),
}
_CODE: Final = {
    "neovim": "Neovim is configured by program code, which is not edited",
    "emacs": "Emacs is configured by program code, which is not edited",
    "toad": "Toad keeps no list of agents: the command does it all",
}
_PASSED: Final = ("HOME", "ACCORD_HOME", "ACCORD_MODEL")
EDITORS: Final = ("zed", "jetbrains", "neovim", "emacs", "vscode", "toad")


def setup(arguments: Sequence[str]) -> int:
    """Print the configuration, or with `--write` merge it."""
    parser = Parser("accord agents setup", "Make an editor launch `accord agent`.")
    parser.add_argument("editor", help=", ".join(EDITORS))
    parser.add_argument(
        "--write", action="store_true", help="merge it into the editor's settings; a backup is kept"
    )
    parser.add_argument(
        "--remove", action="store_true", help="take the entry out of the editor's settings again"
    )
    parser.add_argument(
        "--file", metavar="PATH", help="the settings file, where it is not in its usual place"
    )
    parser.add_argument("--name", metavar="NAME", help="what the agent is called there")
    parser.add_argument("--plugin", metavar="PLUGIN", help=f"Neovim: {', '.join(PLUGINS)}")
    given = parser.parse_args(arguments)
    editor = given.editor.casefold()
    if editor not in EDITORS:
        raise UsageError(f"no editor is called {given.editor!r}; there are: {', '.join(EDITORS)}")
    _check(given, editor)
    command = own_program()
    if editor not in FILES:
        sys.stdout.write(_snippet(editor, given, command))
        return 0
    settings = FILES[editor]
    path = Path(given.file).expanduser() if given.file else Path(settings.place(this_machine()))
    name = given.name or settings.name
    if given.write or given.remove:
        return _write(settings, path, name, command, remove=given.remove)
    sys.stdout.write(settings.merged("", name, command))
    print(f"This goes into {path}; --write puts it there.", file=sys.stderr)
    return 0


def own_program() -> tuple[str, ...]:
    """How this very installation is started as an agent, from anywhere: editors do not know the shell's PATH."""
    beside = Path(sys.executable).absolute().with_name("accord.exe" if sys.platform == "win32" else "accord")
    if beside.is_file():
        return (str(beside), "agent")
    found = shutil.which("accord")
    if found is not None:
        return (str(Path(found).absolute()), "agent")
    return (str(Path(sys.executable).absolute()), "-P", "-m", "accord.cli", "agent")


def _check(given: Namespace, editor: str) -> None:
    if given.write and given.remove:
        raise UsageError("--write and --remove at the same time make no sense: choose one")
    if editor in _CODE:
        for option in ("write", "remove", "file"):
            if getattr(given, option):
                raise UsageError(f"--{option}: {_CODE[editor]}; run it without, and use what it prints")
    if given.plugin is not None and (editor != "neovim" or given.plugin not in PLUGINS):
        raise UsageError(f"--plugin {given.plugin!r}: it is for neovim, one of {', '.join(PLUGINS)}")
    if given.name is not None and (not given.name.strip() or not given.name.isprintable()):
        raise UsageError(f"--name {given.name!r} cannot be shown by an editor")


def _snippet(editor: str, given: Namespace, command: Sequence[str]) -> str:
    name = given.name or "accord"
    if editor == "toad":
        return toad(name, command)
    if editor == "emacs":
        return emacs(name, command)
    import os

    passed = [variable for variable in _PASSED if variable in os.environ]
    plugin = given.plugin or "codecompanion"
    if given.plugin is None:
        others = " or ".join(f"--plugin {other}" for other in PLUGINS if other != plugin)
        print(f"This is for {plugin}; {others} prints another plugin's.", file=sys.stderr)
    return neovim(plugin, name, command, passed)


def _write(settings: EditorSettings, path: Path, name: str, command: Sequence[str], *, remove: bool) -> int:
    if remove and read_whole(path) is None:
        print(f"{path} is not there: nothing to change")
        return 0
    with held(path):
        return _changed(settings, path, name, command, remove=remove)


def _changed(settings: EditorSettings, path: Path, name: str, command: Sequence[str], *, remove: bool) -> int:
    before = read_whole(path)
    try:
        text = "" if before is None else before.decode()
        after = settings.without(text, name) if remove else settings.merged(text, name, command)
    except UnicodeDecodeError:
        raise UsageError(
            f"{path}: it is not UTF-8 text, so it was left alone; paste what is printed without --write"
        ) from None
    except BadJson as error:
        raise UsageError(
            f"{path}: {error}; it was left alone: paste what is printed without --write"
        ) from None
    if after == text:
        state = f"has no {name!r}" if remove else f"already launches {' '.join(command)} as {name!r}"
        print(f"{path} {state}: nothing to change")
        return 0
    backup = write_whole(path, before, after.encode(), mode=0o644, backup=True)
    print(
        f"{settings.title}: {name!r} is {'no longer ' if remove else ''}in {path}"
        + (f"; as it was: {backup}" if backup else "")
    )
    return 0
