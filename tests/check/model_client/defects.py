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
    8: _no_version,
    28: _bad_error,
    43: _params("session/new", lambda params: params.update(mine=1)),
    90: _params("session/new", lambda params: params.pop("mcpServers")),
}
"""Functions that damage a message."""


def _kind(kind: str, /, **members: Any) -> Callable[[Message], bool]:
    """Match an update of this kind with these members."""
    return lambda update: update.get("sessionUpdate") == kind and members.items() <= update.items()


_UPDATES: dict[Any, Callable[[Message], bool]] = {
    33: lambda update: "zzz" in update,
    39: lambda update: isinstance(update.get("_meta"), dict),
    41: lambda update: isinstance(update.get("_meta"), list),
    49: _kind("zzz"),
    148: lambda update: "messageId" in update and update["messageId"] is None,
    187: _kind("tool_call", kind="file"),
    188: lambda update: (
        5 in (update.get("content") or []) if isinstance(update.get("content"), list) else False
    ),
    189: _kind("tool_call_update", toolCallId="never-begun"),
    290: _kind("notice", severity="_x"),
    316: _kind("notice"),
    322: lambda update: "name" in update and update["name"] is None,
}
"""Updates that crash the client."""
_NOTIFICATIONS: dict[Any, Callable[[Message], bool]] = {
    20: lambda message: message["method"] == "_test/n",
    53: lambda message: message["method"] == "$/cancel_request" and message["params"]["requestId"] == "never",
    57: lambda message: message["method"] == "$/progress",
    270: lambda message: message["method"] == "elicitation/complete",
    362: lambda message: message["method"] == "auth/status_update",
}
"""Notifications that crash the client."""


def crash_on_defect(client: Any, message: Message) -> None:
    """Crash if this client's defect applies to the message."""
    params: Any = message.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    if "id" not in message and client.broken in _NOTIFICATIONS and _NOTIFICATIONS[client.broken](message):
        client.crash()
    if client.broken == 88 and message.get("error", {}).get("code") == -32000:
        client.crash()
    if not isinstance(update, dict):
        return
    if client.broken in _UPDATES and _UPDATES[client.broken](update):
        client.crash()
    outside = not client.prompting and not client.over
    if client.broken == 156 and outside and not client.opened:
        client.crash()
    if client.broken == 155 and outside and client.opened:
        client.crash()
    if client.broken == 378 and params["sessionId"] in client.children:
        client.crash()
