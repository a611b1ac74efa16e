"""Defects as data: messages that are sent damaged, and messages that crash the client. The key is the broken
rule.
"""

from collections.abc import Callable
from typing import Any

Message = dict[str, Any]


def _params(method: str, change: Callable[[Message], Any]) -> Callable[[Message], Message]:
    def mutate(message: Message) -> Message:
        if message.get("method") == method:
            change(message["params"])
        return message

    return mutate


def _no_version(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != "jsonrpc"}


def _bad_error(message: Message) -> Message:
    if "error" in message:
        message["error"].pop("message")
    return message


MUTATIONS: dict[Any, Callable[[Message], Message]] = {
    "framing.client-jsonrpc-member": _no_version,
    "framing.client-error-members": _bad_error,
    "extension.client-no-custom-members": _params("session/new", lambda params: params.update(mine=1)),
    "session.new-members": _params("session/new", lambda params: params.pop("mcpServers")),
}
"""Functions that damage a message."""


def _kind(kind: str, /, **members: Any) -> Callable[[Message], bool]:
    """Match an update of this kind with these members."""
    return lambda update: update.get("sessionUpdate") == kind and members.items() <= update.items()


_UPDATES: dict[Any, Callable[[Message], bool]] = {
    "framing.client-extra-members": lambda update: "zzz" in update,
    "extension.client-accepts-meta": lambda update: isinstance(update.get("_meta"), dict),
    "extension.client-malformed-meta": lambda update: isinstance(update.get("_meta"), list),
    "extension.unknown-update": _kind("zzz"),
    "prompt.message-id-opaque": lambda update: "messageId" in update and update["messageId"] is None,
    "tool-call.unknown-kind": _kind("tool_call", kind="file"),
    "tool-call.invalid-content-item": lambda update: (
        5 in (update.get("content") or []) if isinstance(update.get("content"), list) else False
    ),
    "tool-call.unknown-id": _kind("tool_call_update", toolCallId="never-begun"),
    "notice.unknown-severity": _kind("notice", severity="_x"),
    "notice.unadvertised": _kind("notice"),
    "tool-call.name-optional": lambda update: "name" in update and update["name"] is None,
}
"""Updates that crash the client."""
_NOTIFICATIONS: dict[Any, Callable[[Message], bool]] = {
    "framing.client-unknown-notification": lambda message: message["method"] == "_test/n",
    "cancel-request.client-unknown-id": lambda message: (
        message["method"] == "$/cancel_request" and message["params"]["requestId"] == "never"
    ),
    "cancel-request.client-other-notification": lambda message: message["method"] == "$/progress",
    "elicitation.unknown-completion": lambda message: message["method"] == "elicitation/complete",
    "auth-status.unknown-state": lambda message: message["method"] == "auth/status_update",
}
"""Notifications that crash the client."""


def crash_on_defect(client: Any, message: Message) -> None:
    """Crash if this client's defect applies to the message."""
    params: Any = message.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    if "id" not in message and client.broken in _NOTIFICATIONS and _NOTIFICATIONS[client.broken](message):
        client.crash()
    if client.broken == "auth.survives-signed-out-session" and message.get("error", {}).get("code") == -32000:
        client.crash()
    if not isinstance(update, dict):
        return
    if client.broken in _UPDATES and _UPDATES[client.broken](update):
        client.crash()
    outside = not client.prompting and not client.over
    if client.broken == "prompt.updates-around-session-new" and outside and not client.opened:
        client.crash()
    if client.broken == "prompt.updates-outside-turn" and outside and client.opened:
        client.crash()
    if client.broken == "subagent.updates-accepted" and params["sessionId"] in client.children:
        client.crash()
