"""Real home and project folders with agent configuration files."""

import json
from pathlib import Path
from typing import Any

import pytest


class ConfigFolders:
    """A home folder and a project folder, each with an `acp.json`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        (self.project / ".git").mkdir(parents=True)
        self.user_file = self.home / "config" / "acp.json"
        self.project_file = self.project / "acp.json"
        monkeypatch.setenv("ACCORD_HOME", str(self.home))

    def write_user_file(self, content: Any) -> Path:
        return write(self.user_file, content)

    def write_project_file(self, content: Any) -> Path:
        return write(self.project_file, content)


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    path.write_bytes(text.encode())
    return path
