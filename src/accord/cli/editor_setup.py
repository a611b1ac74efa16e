"""`accord agents setup EDITOR`: prints the settings that make an editor run `accord agent`, or merges them.

A merge changes one entry, and in it only the members that start the agent. Comments, order and everything
else in the file stay.

Imported on first use.
"""

import os
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
    edit_lock,
    parse,
    read_bytes,
    remove_member,
    replace_file,
    set_member,
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where editors keep their settings, by system, home folder and environment."""

    system: str
    """A value of `sys.platform`."""
    home: str
    environ: Mapping[str, str]

    def zed(self) -> PurePath:
        """Return the path of Zed's settings."""
        if self.system == "win32":
            return self._roaming() / "Zed" / "settings.json"
        if self.system == "darwin":
            return self._home() / ".config" / "zed" / "settings.json"
        flatpak = self._folder("FLATPAK_XDG_CONFIG_HOME")
        return (flatpak or self._config()) / "zed" / "settings.json"

    def jetbrains(self) -> PurePath:
        """Return the path of the custom agents of all JetBrains IDEs."""
        return self._home() / ".jetbrains" / "acp.json"

    def acpx(self) -> PurePath:
        """Return the path of acpx's configuration."""
        return self._home() / ".acpx" / "config.json"

    def vscode(self) -> PurePath:
        """Return the path of VS Code's user settings. Its derivatives use other folders."""
        return self._applications() / "Code" / "User" / "settings.json"

    def simse(self) -> PurePath:
        """Return the path of simse's agents."""
        return self._applications() / "simse" / "acp.json"

    def _applications(self) -> PurePath:
        """Return the system's own folder for settings of applications."""
        if self.system == "win32":
            return self._roaming()
        return self._home() / "Library" / "Application Support" if self.system == "darwin" else self._config()

    def _home(self) -> PurePath:
        return PureWindowsPath(self.home) if self.system == "win32" else PurePosixPath(self.home)

    def _roaming(self) -> PurePath:
        return PureWindowsPath(self.environ.get("APPDATA") or f"{self.home}\\AppData\\Roaming")

    def _config(self) -> PurePath:
        return self._folder("XDG_CONFIG_HOME") or self._home() / ".config"

    def _folder(self, variable: str) -> PurePath | None:
        # The XDG specification ignores paths that are not absolute.
        text = self.environ.get(variable, "")
        return PurePosixPath(text) if text.startswith("/") else None


@dataclass(frozen=True, slots=True)
class EditorSettings:
    """An editor whose settings are a JSON file."""

    title: str
    find_file: Callable[[Machine], PurePath]
    key: str
    name: str
    """The agent's default name in this editor."""
    extra_members: tuple[tuple[str, str], ...] = ()
    """Members that an entry needs besides the command."""
    plain: bool = False
    """Whether the file is plain JSON, without comments."""
    command_line: bool = False
    """Whether `command` is a whole command line; with spaces in a path it is `argv` instead."""

    def entry(self, command: Sequence[str]) -> dict[str, Any]:
        if self.command_line:
            is_plain = all(word == shlex.quote(word) for word in command)
            return {"command": " ".join(command)} if is_plain else {"argv": list(command)}
        return {**dict(self.extra_members), "command": command[0], "args": list(command[1:])}

    def merge(self, text: str, name: str, command: Sequence[str]) -> str:
        """Return the text with the entry. Other members of an existing entry stay."""
        members = self.entry(command)
        if self._find(text, name) is None or self.command_line:
            env: dict[str, Any] = {} if self.command_line else {"env": {}}
            return set_member(text, [self.key, name], {**members, **env}, plain=self.plain)
        for key, value in members.items():
            text = set_member(text, [self.key, name, key], value, plain=self.plain)
        return text

    def remove(self, text: str, name: str) -> str:
        """Return the text without the entry."""
        if self._find(text, name) is None:
            return text
        return remove_member(text, [self.key], name, plain=self.plain)

    def _find(self, text: str, name: str) -> JsonNode | None:
        if not text.strip("\ufeff \t\r\n"):
            return None
        agents = parse(text, plain=self.plain).get(self.key)
        return None if agents is None else agents.get(name)


FILES: Final[dict[str, EditorSettings]] = {
    "zed": EditorSettings("Zed", Machine.zed, "agent_servers", "accord", (("type", "custom"),)),
    "jetbrains": EditorSettings("JetBrains IDEs", Machine.jetbrains, "agent_servers", "Accord", plain=True),
    "vscode": EditorSettings("VS Code with the ACP Client extension", Machine.vscode, "acp.agents", "Accord"),
    "acpx": EditorSettings("acpx", Machine.acpx, "agents", "accord", plain=True, command_line=True),
}
_NO_SETTINGS_FILE: Final = {
    "neovim": "Neovim is configured by Lua code",
    "emacs": "Emacs is configured by Lisp code",
    "toad": "Toad keeps no list of agents",
}
_PASSED_VARIABLES: Final = (
    "HOME", "LANG", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "SSH_AUTH_SOCK",
    "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "ACCORD_HOME", "ACCORD_MODEL",
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY",
)  # fmt: skip
"""What the agent needs of the environment, for plugins that pass on only PATH."""
_MODEL_VARIABLES: Final = ("_API_KEY", "_BASE_URL")
"""The ends of the names that the user's other model servers need."""
EDITORS: Final[tuple[str, ...]] = ("zed", "jetbrains", "neovim", "emacs", "vscode", "toad", "acpx")


def setup(arguments: Sequence[str]) -> int:
    """Print the settings, or merge them into the editor's file with `--write`."""
    parser = Parser("accord agents setup", "Configure an editor to run `accord agent`.")
    parser.add_argument("editor", help=", ".join(EDITORS))
    parser.option("--write", "merge the entry into the editor's settings; keeps a backup")
    parser.option("--remove", "remove the entry from the editor's settings")
    parser.option("--file PATH", "settings file, if it is not in its usual place")
    parser.option("--name NAME", "name of the agent in the editor")
    parser.option("--plugin PLUGIN", f"Neovim plugin: {', '.join(PLUGINS)}")
    options = parser.parse_args(arguments)
    editor = options.editor.casefold()
    if editor not in EDITORS:
        raise UsageError(f"unknown editor {options.editor!r}; use one of: {', '.join(EDITORS)}")
    _check_options(options, editor)
    command = own_program()
    if editor not in FILES:
        sys.stdout.write(_snippet(editor, options, command))
        return 0
    settings = FILES[editor]
    path = Path(options.file).expanduser() if options.file else Path(settings.find_file(this_machine()))
    name = options.name or settings.name
    if options.write or options.remove:
        return _change_file(settings, path, name, command, remove=options.remove)
    sys.stdout.write(settings.merge("", name, command))
    print(f"Add this to {path}, or run the command with --write.", file=sys.stderr)
    return 0


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    return Machine(sys.platform, str(Path.home()), os.environ)


def own_program() -> tuple[str, ...]:
    """Return the absolute command of this installation's agent. Editors do not know the shell's PATH."""
    script = Path(sys.executable).absolute().with_name("accord.exe" if sys.platform == "win32" else "accord")
    if script.is_file():
        return (str(script), "agent")
    found = shutil.which("accord")
    if found is not None:
        return (str(Path(found).absolute()), "agent")
    return (str(Path(sys.executable).absolute()), "-P", "-m", "accord.cli", "agent")


def _check_options(options: Namespace, editor: str) -> None:
    if options.write and options.remove:
        raise UsageError("--write and --remove exclude each other; use one of them")
    if editor in _NO_SETTINGS_FILE:
        for option in ("write", "remove", "file"):
            if getattr(options, option):
                raise UsageError(
                    f"--{option} does not work for {editor} ({_NO_SETTINGS_FILE[editor]}); "
                    "omit it and use the printed text"
                )
    if options.plugin is not None and (editor != "neovim" or options.plugin not in PLUGINS):
        raise UsageError(
            f"--plugin {options.plugin!r} is not valid here; it is for neovim, one of {', '.join(PLUGINS)}"
        )
    if options.name is not None and (not options.name.strip() or not options.name.isprintable()):
        raise UsageError(f"--name {options.name!r} is empty or not printable; use another name")


def _snippet(editor: str, options: Namespace, command: Sequence[str]) -> str:
    name = options.name or "accord"
    if editor == "toad":
        return toad(name, command)
    if editor == "emacs":
        return emacs(name, command)
    others = sorted(name for name in os.environ if name.endswith(_MODEL_VARIABLES) and name.isidentifier())
    variables = list(dict.fromkeys((*_PASSED_VARIABLES, *others)))
    plugin = options.plugin or "codecompanion"
    if options.plugin is None:
        alternatives = " or ".join(f"--plugin {other}" for other in PLUGINS if other != plugin)
        print(f"This is for {plugin}; use {alternatives} for another plugin.", file=sys.stderr)
    if plugin == "avante":
        print("avante approves every tool call by default; the last lines make it ask you.", file=sys.stderr)
    return neovim(plugin, name, command, variables)


def _change_file(
    settings: EditorSettings, path: Path, name: str, command: Sequence[str], *, remove: bool
) -> int:
    if remove and read_bytes(path) is None:
        print(f"{path} does not exist; nothing to change")
        return 0
    with edit_lock(path):
        return _rewrite(settings, path, name, command, remove=remove)


def _rewrite(settings: EditorSettings, path: Path, name: str, command: Sequence[str], *, remove: bool) -> int:
    before = read_bytes(path)
    try:
        text = "" if before is None else before.decode()
        after = settings.remove(text, name) if remove else settings.merge(text, name, command)
    except UnicodeDecodeError:
        raise UsageError(
            f"{path} is not UTF-8 and was not changed; run the command without --write and paste its output"
        ) from None
    except BadJson as error:
        raise UsageError(
            f"{path}: {error}; it was not changed, run the command without --write and paste its output"
        ) from None
    if after == text:
        state = f"has no {name!r}" if remove else f"already runs {' '.join(command)} as {name!r}"
        print(f"{path} {state}; nothing to change")
        return 0
    backup = replace_file(path, before, after.encode(), mode=0o644, backup=True)
    print(
        f"{settings.title}: {name!r} {'removed from' if remove else 'added to'} {path}"
        + (f"; backup: {backup}" if backup else "")
    )
    return 0


_CODECOMPANION = """\
-- codecompanion.nvim: the agent gets the environment of Neovim, with the keys of your models
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
-- avante.nvim: the agent gets only PATH and the variables in env; add others that your models need
require("avante").setup({
  provider = @name@,
  acp_providers = {
    [@name@] = {
      command = @program@,
      args = { @args@ },
      env = {
@env@
      },
    },
  },
  -- avante approves every tool call by default, without asking you; false makes it ask
  behaviour = { auto_approve_tool_permissions = false },
})
"""


_AGENTIC = """\
-- agentic.nvim: the agent gets only PATH and the variables in env; add others that your models need
require("agentic").setup({
  provider = @name@,
  acp_providers = {
    [@name@] = {
      name = @title@,
      command = @program@,
      args = { @args@ },
      env = {
@env@
      },
    },
  },
})
"""


PLUGINS: Mapping[str, str] = {"codecompanion": _CODECOMPANION, "avante": _AVANTE, "agentic": _AGENTIC}


_EMACS = """\
;; agent-shell: the agent gets the environment of Emacs, with the keys of your models
;; if your agent-shell-agent-configs is a function, add the config to its result
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


def neovim(plugin: str, name: str, command: Sequence[str], variables: Sequence[str]) -> str:
    """Return the Lua code for a plugin.

    `variables` are for plugins that do not pass on the environment.
    """
    env = "\n".join(f'        {variable} = os.getenv("{variable}"),' for variable in variables)
    return _fill_template(
        PLUGINS[plugin],
        key=f"[{_quote(name)}]",
        name=_quote(name),
        title=_quote(_title(name)),
        argv=", ".join(map(_quote, command)),
        program=_quote(command[0]),
        args=", ".join(map(_quote, command[1:])),
        env=env,
    )


def emacs(name: str, command: Sequence[str]) -> str:
    """Return the Lisp code for agent-shell."""
    return _fill_template(
        _EMACS,
        symbol="".join(char if char.isalnum() or char == "-" else "-" for char in name),
        title=_quote(_title(name)),
        prompt=_quote(f"{_title(name)}> "),
        program=_quote(command[0]),
        args=" ".join(map(_quote, command[1:])),
    )


def toad(name: str, command: Sequence[str]) -> str:
    """Return Toad's command line. Toad passes the agent's command to a shell, so it is quoted twice."""
    return f"toad acp {shlex.quote(shlex.join(command))} --title {shlex.quote(_title(name))}\n"


def _fill_template(template: str, **values: str) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]


def _quote(text: str) -> str:
    """Quote a string for Lua and for Emacs Lisp, which escape it alike."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
