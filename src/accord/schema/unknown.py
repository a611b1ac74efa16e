"""What a reader keeps of a variant that this version of the protocol does not know."""

from typing import Any


class Unknown:
    """A variant this version does not know, kept as it came: `kind` is its tag, `raw` the JSON value.

    It encodes back to `raw`.
    """

    __slots__ = ("kind", "raw")
    __match_args__ = ("kind", "raw")
    __hash__ = None  # type: ignore[assignment]  # raw is mutable

    def __init__(self, kind: str, raw: Any) -> None:
        self.kind = kind
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and (self.kind, self.raw) == (other.kind, other.raw)

    def __repr__(self) -> str:
        return f"Unknown(kind={self.kind!r}, raw={self.raw!r})"
