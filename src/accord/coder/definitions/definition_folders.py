"""Where the files of skills and custom agents are.

Loaded when a session opens: keep heavy imports out.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from accord.paths import config_folder

_MAX_DEPTH: Final = 40
"""The maximum number of folders above the working folder."""


@dataclass(frozen=True, slots=True)
class DefinitionFolders:
    """Where files of one kind are."""

    purpose: str
    """What one file defines, such as `skill`."""
    user: Sequence[str]
    """The user's folders, absolute, the most important first."""
    project: Sequence[str]
    """The folders in each folder of the project."""
    file_name: str = ""
    """The name of a file that has a folder of its own. Without, every Markdown file counts."""

    def exist(self, cwd: str) -> bool:
        """Whether one of the folders exists. Reads no file."""
        project = (os.path.join(parent, name) for parent in project_chain(cwd) for name in self.project)
        return any(map(os.path.isdir, (*self.user, *project)))


def skill_folders() -> DefinitionFolders:
    """Where skills are."""
    home = os.path.expanduser("~")
    user = (f"{home}/.agents/skills", os.path.join(config_folder(), "skills"), f"{home}/.claude/skills")
    project = (".agents/skills", ".accord/skills", ".claude/skills")
    return DefinitionFolders("skill", user, project, "SKILL.md")


def agent_folders() -> DefinitionFolders:
    """Where custom agents are."""
    home = os.path.expanduser("~")
    opencode = os.path.join(os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config", "opencode")
    user = (
        os.path.join(config_folder(), "agents"),
        f"{home}/.claude/agents",
        f"{opencode}/agents",
        f"{opencode}/agent",
    )
    project = (".accord/agents", ".claude/agents", ".opencode/agents", ".opencode/agent")
    return DefinitionFolders("agent", user, project)


def project_chain(cwd: str) -> list[str]:
    """The working folder and those above it up to the root of its repository."""
    return searched_folders(os.path.realpath(cwd), os.path.realpath(os.path.expanduser("~")))


def searched_folders(folder: str, home: str) -> list[str]:
    """The folder and those above it up to the root of its repository, as long as the owner is the same."""
    owner = _owner(folder)
    chain: list[str] = []
    for parent in (folder, *map(str, PurePath(folder).parents)):
        if _owner(parent) != owner:
            break  # the file of another user must not instruct this agent
        chain.append(parent)
        if os.path.lexists(os.path.join(parent, ".git")):
            return chain
        if parent == home or len(chain) > _MAX_DEPTH:
            break
    return [folder]


def _owner(folder: str) -> int | None:
    try:
        return os.stat(folder).st_uid
    except OSError:
        return None
