"""How an agent conducts its connections; the defaults suit nearly everybody."""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from accord.clock import SYSTEM_CLOCK, Clock
from accord.wire.routes import Limits, Observer


class AgentOptions(Struct, frozen=True, kw_only=True):
    """Settings of a connection."""

    strict: bool = False
    """Switches the repair of known dialects off: messages are judged as sent."""
    cancel_grace: float = 5.0
    """Seconds that cancelled code is given before its turn is answered without it."""
    limits: Limits = field(default_factory=Limits)
    """Bounds in bytes, and how long unfinished requests may hold back the end."""
    clock: Clock = SYSTEM_CLOCK
    refused_members: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members that no request may carry at the top of its params, and why: it is answered -32602. `_meta` is free."""
    observer: Observer | None = None
    """Told what a connection survived: noise, malformed messages, answers to nothing. Without one it is logged."""
    on_dialect: Callable[[int, str], None] | None = None
    """Told once per client about each dialect it speaks: the row's number and text. Without one it is logged."""
