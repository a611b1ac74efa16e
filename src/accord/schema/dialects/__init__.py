"""Repairs messages of peers that deviate from ACP in a known way (a dialect).

A repair runs only if the official form does not decode, or if an official key is missing. A repair never
grants a permission, never adds a directory, and is never sent. `accord.schema.message_reader` calls the
repairs; a strict reader does not. The functions do no I/O.

Imported on first use: correct peers never need it.
"""

from typing import TYPE_CHECKING

from accord.lazy_names import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.schema.dialects.dialect_table import DIALECTS, Dialect
    from accord.schema.dialects.json_members import (
        RepairedMessage,
        display_kind,
        final_text,
        official_kind,
        set_method_of,
        stop_reason_as_sent,
        variables,
    )
    from accord.schema.dialects.permission_outcome import PermissionDecision, must_cancel, read_outcome
    from accord.schema.dialects.repairs import repair_params, repair_result
    from accord.schema.methods import ALIASES, METHOD_ALIASES, Alias, aliases

__all__ = [
    "ALIASES", "DIALECTS", "METHOD_ALIASES", "Alias", "Dialect", "PermissionDecision", "RepairedMessage",
    "aliases", "display_kind", "final_text", "must_cancel", "official_kind", "read_outcome",
    "repair_params", "repair_result", "set_method_of", "stop_reason_as_sent", "variables",
]  # fmt: skip

__getattr__: "Callable[[str], object]" = lazy_names(
    __name__,
    {
        "accord.schema.dialects.dialect_table": "DIALECTS Dialect",
        "accord.schema.dialects.json_members": (
            "RepairedMessage display_kind final_text official_kind set_method_of stop_reason_as_sent "
            "variables"
        ),
        "accord.schema.dialects.permission_outcome": "PermissionDecision must_cancel read_outcome",
        "accord.schema.dialects.repairs": "repair_params repair_result",
        "accord.schema.methods": "ALIASES Alias METHOD_ALIASES aliases",
    },
)
