"""The optional parts (extras) of Accord: the modules of each, and the check that it is installed."""

from importlib.util import find_spec
from typing import Final

from accord.errors import MissingExtra

EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "agent": ("httpx2", "tree_sitter", "tree_sitter_bash", "rignore", "h11"),
    "mcp": ("mcp",),
    "remote": ("httpx2", "h2", "websockets"),
    "gateway": ("h11", "h2", "websockets", "segno"),
    "push": ("h11", "cryptography"),
    "cluster": ("h11", "nats"),
    "tui": ("textual",),
    "check": ("pytest",),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "uvloop": ("uvloop",),
}
"""Each extra with the modules that show that it is installed. The check imports none of them."""


def is_installed(extra: str) -> bool:
    """Whether all modules of this extra can be imported."""
    return all(_is_found(module) for module in EXTRAS[extra])


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package above it
        return False


def require(extra: str, needed_by: str) -> None:
    """Raise MissingExtra, with the install command, unless the extra is installed."""
    if not is_installed(extra):
        raise MissingExtra(extra, needed_by)
