"""Method names and envelope kinds that older or other peers use for what has an official name today."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Side = Literal["agent", "client", "proxy"]
Kind = Literal["request", "notification"]


class Alias(NamedTuple):
    """`sent` arrives at `side` as `kind`; it is served like `method`. The envelope decides whether an answer is due.

    `session/set_model` is served by `session/set_config_option`: its parameters are rewritten to the option `model`,
    which an agent without an option of that id takes as its option of category `model`. A `session/cancel` that
    comes as a request is acted on and answered with `{}`.
    """

    sent: str
    method: str
    side: Side
    kind: Kind
    row: int


ALIASES: Final = (
    Alias("request_permission", "session/request_permission", "client", "request", 21),
    Alias("session/cancel", "session/cancel", "agent", "request", 30),
    Alias("sessions/list", "session/list", "agent", "request", 43),
    Alias("config/set", "session/set_config_option", "agent", "request", 44),
    Alias("session/set_model", "session/set_config_option", "agent", "request", 201),
    Alias("session/stop", "session/close", "agent", "request", 202),
    Alias("session/elicitation", "elicitation/create", "client", "request", 203),
    Alias("session/elicitation/complete", "elicitation/complete", "client", "notification", 203),
    Alias("session/cancelled", "session/cancel", "agent", "notification", 206),
    Alias("_proxy/initialize", "proxy/initialize", "proxy", "request", 208),
    Alias("_proxy/successor", "proxy/successor", "proxy", "request", 208),
    Alias("_proxy/successor", "proxy/successor", "proxy", "notification", 208),
)

METHOD_ALIASES: Final[Mapping[str, str]] = {
    alias.sent: alias.method for alias in ALIASES if alias.sent != alias.method
}


def aliases(side: Side, kind: Kind) -> tuple[Alias, ...]:
    """What a tolerant peer on this side serves beside the official names."""
    return tuple(alias for alias in ALIASES if alias.side == side and alias.kind == kind)
