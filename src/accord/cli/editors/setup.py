"""`accord agents setup EDITOR`: prints what makes an editor launch `accord agent`, or merges it into the editor's settings.

A merge touches one entry and in it only what launches the agent. Comments, order and everything else in the file stay.
"""

import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from accord.cli.editors import snippets
from accord.cli.editors.places import Machine, this_machine
from accord.cli.parser import Parser
from accord.client.servers.edit import drop, put
from accord.client.servers.jsonc import BadJson, Node, parse
from accord.client.servers.saving import held, read_whole, write_whole
from accord.errors import UsageError


@dataclass(frozen=True, slots=True)
class Settings:
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
            return put(text, [self.key, name], {**wanted, "env": {}}, plain=self.plain)
        for key, value in wanted.items():
            text = put(text, [self.key, name, key], value, plain=self.plain)
        return text

    def without(self, text: str, name: str) -> str:
        """The text without the entry."""
        if self._entry(text, name) is None:
            return text
        return drop(text, [self.key], name, plain=self.plain)

    def _entry(self, text: str, name: str) -> Node | None:
        if not text.strip("\ufeff \t\r\n"):
            return None
        agents = parse(text, plain=self.plain).get(self.key)
        return None if agents is None else agents.get(name)


FILES: Final = {
    "zed": Settings("Zed", Machine.zed, "agent_servers", "accord", (("type", "custom"),)),
    "jetbrains": Settings("JetBrains IDEs", Machine.jetbrains, "agent_servers", "Accord", plain=True),
    "vscode": Settings("VS Code with the ACP Client extension", Machine.vscode, "acp.agents", "Accord"),
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
    parser.add_argument("--plugin", metavar="PLUGIN", help=f"Neovim: {', '.join(snippets.PLUGINS)}")
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
    if given.plugin is not None and (editor != "neovim" or given.plugin not in snippets.PLUGINS):
        raise UsageError(f"--plugin {given.plugin!r}: it is for neovim, one of {', '.join(snippets.PLUGINS)}")
    if given.name is not None and (not given.name.strip() or not given.name.isprintable()):
        raise UsageError(f"--name {given.name!r} cannot be shown by an editor")


def _snippet(editor: str, given: Namespace, command: Sequence[str]) -> str:
    name = given.name or "accord"
    if editor == "toad":
        return snippets.toad(name, command)
    if editor == "emacs":
        return snippets.emacs(name, command)
    import os

    passed = [variable for variable in _PASSED if variable in os.environ]
    plugin = given.plugin or "codecompanion"
    if given.plugin is None:
        others = " or ".join(f"--plugin {other}" for other in snippets.PLUGINS if other != plugin)
        print(f"This is for {plugin}; {others} prints another plugin's.", file=sys.stderr)
    return snippets.neovim(plugin, name, command, passed)


def _write(settings: Settings, path: Path, name: str, command: Sequence[str], *, remove: bool) -> int:
    if remove and read_whole(path) is None:
        print(f"{path} is not there: nothing to change")
        return 0
    with held(path):
        return _changed(settings, path, name, command, remove=remove)


def _changed(settings: Settings, path: Path, name: str, command: Sequence[str], *, remove: bool) -> int:
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
