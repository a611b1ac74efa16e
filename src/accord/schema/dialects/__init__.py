"""The dialects of ACP: what peers send that is not official, as a table of repairs on parsed JSON.

Liberal in, strict out: a repair is tried only where the official reading fails (or an official key is absent), never
creates consent, never widens a folder, and is never sent. Pure functions, no I/O. `accord.schema.reading` joins them
with the official reading; a strict reader leaves them out.
"""

from .aliases import ALIASES, METHOD_ALIASES, Alias, aliases
from .json import Repaired
from .permission import Outcome, read_outcome
from .provenance import display_kind, final_text, official_kind, set_by, stop_reason_as_sent
from .repairs import PARAMS_TELLTALES, RESULT_TELLTALES, repair_params, repair_result
from .table import DIALECTS, Dialect

__all__ = [
    "ALIASES",
    "DIALECTS",
    "METHOD_ALIASES",
    "PARAMS_TELLTALES",
    "RESULT_TELLTALES",
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
]
