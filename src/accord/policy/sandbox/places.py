"""Where programs live: the folders that every command may read, so that the tools of the machine and of the user work.

Everything else (other projects, the rest of the home folder, /var, /mnt, other users) is not readable in a sandbox
unless it is named. A home folder holds tools beside secrets, so its tool folders are listed one by one.
"""

import os
import sys
from collections.abc import Iterator
from typing import Final


def words(text: str) -> tuple[str, ...]:
    """A list that is long and has no blanks in its items, written as text."""
    return tuple(text.split())


SYSTEM: Final = words(
    "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix /gnu /snap /sys /home/linuxbrew/.linuxbrew "
    "/run/current-system /run/opengl-driver /var/lib/ca-certificates /var/lib/dpkg /var/cache/fontconfig"
)

_IN_HOME: Final = words(
    # version managers and toolchains
    ".pyenv .rbenv .nodenv .goenv .jenv .asdf .nvm .fnm .volta .sdkman .rustup .cargo/bin .cargo/env .ghcup/bin .elan "
    ".juliaup .opam .dotnet .deno/bin .bun/bin .yarn/bin .npm-global .linuxbrew go/bin miniconda3 anaconda3 miniforge3 "
    "mambaforge micromamba .local/bin .local/lib .local/pipx .local/share/uv .local/share/mise .local/share/fnm "
    ".local/share/nvm .local/share/pipx .local/share/pnpm .local/share/virtualenv .local/share/virtualenvs "
    # how the user likes tools to behave
    ".bashrc .bash_profile .profile .zshrc .zshenv .inputrc .editorconfig .config/git/ignore .config/git/attributes "
    ".config/pip .config/ruff .config/nix"
)

GIT_CONFIGS: Final = (".gitconfig", ".config/git/config")
"""Wanted for a name and an address to commit with; may hold tokens, then they stay hidden."""


def tool_folders(home: str, path: str) -> Iterator[str]:
    """Existing folders and files with tools in them, besides `SYSTEM`: the user's, and what is on PATH."""
    for relative in _IN_HOME:
        place = os.path.join(home, relative)
        if os.path.exists(place):
            yield place
    for folder in dict.fromkeys(path.split(os.pathsep)):
        if os.path.isabs(folder) and os.path.isdir(folder):
            yield from _around(os.path.normpath(folder), home)
    yield from {sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))}


def name_service() -> Iterator[str]:
    """The files that names are looked up with, where /etc only points to them."""
    for link in ("/etc/resolv.conf", "/etc/hosts", "/etc/localtime"):
        if os.path.islink(link) and os.path.exists(link):
            yield os.path.realpath(link)


def _around(folder: str, home: str) -> Iterator[str]:
    """A folder on PATH, and the installation it is part of if that holds nothing but the installation."""
    prefix = os.path.dirname(folder)
    is_environment = any(os.path.exists(os.path.join(prefix, mark)) for mark in ("pyvenv.cfg", "conda-meta"))
    holds_home = is_within(home, prefix)
    if is_environment and not holds_home:
        yield prefix
        return
    if not is_within(home, folder):
        yield folder
    if not holds_home and not is_within(prefix, home) and os.path.isdir(os.path.join(prefix, "lib")):
        yield prefix


def is_within(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies below it; both absolute and normal."""
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")
