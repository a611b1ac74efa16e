"""The optional parts of Accord: which modules each extra brings, and the one line that says it is missing."""

from importlib.util import find_spec
from typing import Final

from accord.errors import MissingExtra

EXTRAS: Final = {
    "agent": ("pydantic_ai", "tree_sitter", "tree_sitter_bash", "rignore", "h11"),
    "mcp": ("mcp",),
    "remote": ("httpx2", "h2", "websockets"),
    "gateway": ("h11", "h2", "websockets", "segno"),
    "tui": ("textual",),
    "check": ("pytest",),
    "uvloop": ("uvloop",),
}
"""Each extra and the modules that show it is installed. Nothing is imported to find out."""


def is_installed(extra: str) -> bool:
    """Whether everything of this extra can be imported."""
    return all(find_spec(module) is not None for module in EXTRAS[extra])


def require(extra: str, needed_by: str) -> None:
    """Raise MissingExtra, with the install command, unless the extra is installed."""
    if not is_installed(extra):
        raise MissingExtra(extra, needed_by)
