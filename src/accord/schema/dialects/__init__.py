"""The dialects of ACP: what peers send that is not official, as a table of repairs on parsed JSON.

Liberal in, strict out: a repair is tried only where the official reading fails (or an official key is absent), never
creates consent, never widens a folder, and is never sent. Pure functions, no I/O. `accord.schema.reader` joins them
with the official reading; a strict reader leaves them out. Loaded on first use: correct peers never need them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .members import Repaired
    from .names import ALIASES, METHOD_ALIASES, Alias, aliases
    from .permission import Outcome, read_outcome
    from .provenance import display_kind, final_text, official_kind, set_by, stop_reason_as_sent, variables
    from .repairs import repair_params, repair_result
    from .table import DIALECTS, Dialect

__all__ = [
    "ALIASES",
    "DIALECTS",
    "METHOD_ALIASES",
    "Alias",
    "Dialect",
    "Outcome",
    "Repaired",
    "aliases",
    "display_kind",
    "final_text",
    "official_kind",
    "read_outcome",
    "repair_params",
    "repair_result",
    "set_by",
    "stop_reason_as_sent",
    "variables",
]

_HOMES = {
    "names": ("ALIASES", "METHOD_ALIASES", "Alias", "aliases"),
    "members": ("Repaired",),
    "permission": ("Outcome", "read_outcome"),
    "provenance": (
        "display_kind",
        "final_text",
        "official_kind",
        "set_by",
        "stop_reason_as_sent",
        "variables",
    ),
    "repairs": ("repair_params", "repair_result"),
    "table": ("DIALECTS", "Dialect"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
