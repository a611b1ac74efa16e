"""Where editors keep their settings, on each system."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath


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
