"""The methods that clients may call: the handler of each, and whether a read-only token may call it."""

from typing import TYPE_CHECKING, Final

from accord.errors import NotFound, RpcError
from accord.gateway.access.access_tokens import NOT_ALLOWED
from accord.gateway.access.parameter_rights import checked_params
from accord.gateway.mcp_providers import MCP_MESSAGE, forward_mcp_notification
from accord.gateway.methods import (
    extension_methods,
    prompt_turn,
    review_methods,
    session_list,
    session_management,
    session_setup,
    token_methods,
    worktree_methods,
)
from accord.schema.methods import (
    SESSION_ARCHIVE,
    SESSION_BATCH_GET,
    SESSION_LIST_SUBSCRIBE,
    SESSION_LIST_UNSUBSCRIBE,
    SESSION_RENAME,
    SESSION_STEERING,
    SESSION_UNARCHIVE,
)

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, MethodHandler

_METHODS: "dict[str, MethodHandler]" = {
    "initialize": session_setup.initialize,
    "session/new": session_setup.new,
    "session/load": session_setup.load,
    "session/resume": session_setup.resume,
    "session/fork": session_setup.fork,
    "session/prompt": prompt_turn.prompt,
    "session/cancel": prompt_turn.cancel,
    "_accord/tool_call/cancel": prompt_turn.cancel_item,
    "_accord/terminal/cancel": prompt_turn.cancel_item,
    SESSION_STEERING: prompt_turn.steer,
    "session/set_mode": prompt_turn.set_mode,
    "session/set_config_option": prompt_turn.set_config_option,
    "session/list": session_list.list_sessions,
    "session/close": session_list.close,
    "session/delete": session_list.delete,
    MCP_MESSAGE: forward_mcp_notification,
    **extension_methods.METHODS,
    **review_methods.METHODS,
    **session_management.METHODS,
    **token_methods.METHODS,
    **worktree_methods.METHODS,
}
_NOT_SERVED: Final = frozenset(
    (
        *("session/archive", "session/unarchive", "session/status"),
        *(SESSION_RENAME, SESSION_ARCHIVE, SESSION_UNARCHIVE, SESSION_BATCH_GET),
        *(SESSION_LIST_SUBSCRIBE, SESSION_LIST_UNSUBSCRIBE),
    )
)
"""Methods of the agent's own list of sessions. Clients see the list of the gateway, which has its own."""
_READ_ONLY_METHODS: Final = frozenset(
    (
        "initialize",
        "session/load",
        "session/resume",
        "session/list",
        "session/close",
        *extension_methods.READ_ONLY_METHODS,
        *session_management.READ_ONLY_METHODS,
    )
)
_SHARE_LINK_METHODS: Final = frozenset(
    (
        *("initialize", "session/load", "session/resume", "session/close"),
        *("_accord/agents", "_accord/sessions", "_accord/terminal/output", "_accord/session/export"),
    )
)
"""What the holder of a share link may call, for its session only."""

_UNAUDITED_METHODS: Final = frozenset(
    (
        *("initialize", "session/list", MCP_MESSAGE),
        *extension_methods.METHODS,
        *review_methods.UNAUDITED_METHODS,
        *session_management.UNAUDITED_METHODS,
        *token_methods.UNAUDITED_METHODS,
        *worktree_methods.UNAUDITED_METHODS,
    )
) - {"_accord/inbox/answer"}


class MethodTable:
    """Finds the handlers. An object of the gateway, so that `GatewayClient` does not import the handlers."""

    def is_audited(self, method: str) -> bool:
        """Whether calls are written to the audit log: not lists, nor what a page requests while the user
        types.
        """
        return method not in _UNAUDITED_METHODS

    def find(self, call: "ClientCall") -> "MethodHandler | None":
        """Return the handler of this call; None if there is none. Raises RpcError if the token does not
        allow it.
        """
        if only := call.client.rights.session:
            if call.method not in _SHARE_LINK_METHODS:
                raise RpcError("this link only shows one session", {"method": call.method}, code=NOT_ALLOWED)
            if call.session_id not in (None, only):
                raise NotFound("session not found", {"sessionId": call.session_id})
        if call.client.rights.read_only and call.method not in _READ_ONLY_METHODS:
            raise RpcError("this token is read-only", {"method": call.method}, code=NOT_ALLOWED)
        if call.method.startswith("_accord/"):
            return _METHODS.get(call.method)
        if call.method in _NOT_SERVED:
            return None
        session = call.client.sessions.get(call.session_id or "")
        call.params = checked_params(
            call.client.rights, call.method, call.params, None if session is None else session.cwd
        )
        return _METHODS.get(call.method, prompt_turn.forward)
