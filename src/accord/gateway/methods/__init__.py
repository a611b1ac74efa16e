"""What clients may ask of the gateway: which function serves a method, and whether a token that only reads may use it."""

from typing import TYPE_CHECKING, Final

from accord.errors import RpcError
from accord.gateway.access.passes import NOT_ALLOWED
from accord.gateway.methods import listing, loading, opening, talking, vendor

if TYPE_CHECKING:
    from accord.gateway.incoming import Incoming
    from accord.gateway.visitor import Serve

_SERVED: "dict[str, Serve]" = {
    "initialize": opening.initialize,
    "session/new": opening.new,
    "session/load": loading.load,
    "session/resume": loading.resume,
    "session/fork": opening.fork,
    "session/prompt": talking.prompt,
    "session/cancel": talking.cancel,
    "session/set_mode": talking.set_mode,
    "session/set_config_option": talking.set_config_option,
    "session/list": listing.list_sessions,
    "session/close": listing.close,
    "session/delete": listing.delete,
    **vendor.SERVED,
}
_READING: Final = frozenset(
    ("initialize", "session/load", "session/resume", "session/list", "session/close", *vendor.READING)
)

_UNSAID: Final = frozenset(("initialize", "session/list", *vendor.SERVED)) - {"_accord/inbox/answer"}


class Methods:
    """The table, as one object: the gateway's clients ask it."""

    def is_audited(self, method: str) -> bool:
        """Whether the audit log tells of it: not of lists and of what a page asks for while somebody types."""
        return method not in _UNSAID

    def find(self, call: "Incoming") -> "Serve | None":
        """What serves this call. Raises RpcError where the token does not allow it."""
        if call.visitor.visa.read_only and call.method not in _READING:
            raise RpcError("This token may only read", {"method": call.method}, code=NOT_ALLOWED)
        serve = _SERVED.get(call.method)
        if serve is not None:
            return serve
        if call.method.startswith("_accord/"):
            return None
        return talking.forward
