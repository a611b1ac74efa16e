"""The roots of the protocol's types, and how their members are spelled on the wire.

Absent is `UNSET`, null is None: both survive a round trip. `UNSET` is falsy and is left out when encoding.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from .marks import Opt
from .unknown import Unknown

__all__ = ["UNSET", "Object", "Record", "Unknown", "UnsetType", "wire_name"]


def wire_name(name: str) -> str:
    """The member name on the wire for a field's name: camelCase, and `_meta` for `meta`."""
    if name == "meta":
        return "_meta"
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


# gc=False: what comes from JSON holds no cycles, and what goes to JSON cannot, so the collector need not look.
class Record(Struct, rename=wire_name, gc=False):
    """A protocol object without `_meta`."""


class Object(Record, kw_only=True, gc=False):
    """A protocol object. `meta` is the `_meta` member: free for extensions, never assumed."""

    meta: Opt[dict[str, Any] | None] = UNSET
