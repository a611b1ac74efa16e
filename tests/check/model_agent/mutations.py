"""Defects in the shape of sent messages: each takes a message and returns it damaged.

The key is the broken rule.
"""

from collections.abc import Callable
from typing import Any

Message = dict[str, Any]


def _update(kind: str, change: Callable[[Message], Any]) -> Callable[[Message], Message]:
    """Change the updates of one kind."""

    def mutate(message: Message) -> Message:
        update = (
            message.get("params", {}).get("update") if message.get("method") == "session/update" else None
        )
        if update and update.get("sessionUpdate") == kind:
            change(update)
        return message

    return mutate


def _params(method: str, change: Callable[[Message], Any]) -> Callable[[Message], Message]:
    """Change the params of one method."""

    def mutate(message: Message) -> Message:
        if message.get("method") == method:
            change(message["params"])
        return message

    return mutate


def _result(member: str, change: Callable[[Message], Any]) -> Callable[[Message], Message]:
    """Change the results that have one member."""

    def mutate(message: Message) -> Message:
        result = message.get("result")
        if isinstance(result, dict) and member in result:
            change(result)
        return message

    return mutate


def _set(**members: Any) -> Callable[[Message], Any]:
    return lambda value: value.update(members)


def _drop(name: str) -> Callable[[Message], Any]:
    return lambda value: value.pop(name, None)


def _no_version(message: Message) -> Message:
    if message.get("error"):
        message.pop("jsonrpc")
    return message


def _bad_error(message: Message) -> Message:
    if message.get("error"):
        message["error"].pop("message")
    return message


def _text_id(message: Message) -> Message:
    return {**message, "id": "-7"} if message.get("id") == -7 else message


def _level(**members: Any) -> Callable[[Message], Message]:
    """Change the option `level` wherever options are sent."""

    def mutate(message: Message) -> Message:
        places = [message.get("result"), message.get("params", {}).get("update")]
        for place in places:
            for option in (place or {}).get("configOptions", []) if isinstance(place, dict) else []:
                if option["id"] == "level":
                    for name, value in members.items():
                        option.pop(name) if value is None else option.update({name: value})
        return message

    return mutate


_MIXED = [
    {"value": "low", "name": "low"},
    {"group": "g", "name": "G", "options": [{"value": "high", "name": "high"}]},
]
_TERMINAL = {"type": "terminal", "id": "term", "name": "Terminal", "args": ["login"]}

MUTATIONS: dict[Any, Callable[[Message], Message]] = {
    "schema": _result("agentInfo", lambda result: result["agentInfo"].update(version=5)),
    "framing.agent-jsonrpc-member": _no_version,
    "framing.agent-returns-id": _text_id,
    "framing.agent-error-members": _bad_error,
    "extension.agent-no-custom-members": _update("agent_message_chunk", _set(mine=1)),
    "extension.agent-announced": _result(
        "agentCapabilities", lambda result: result["agentCapabilities"].pop("_meta")
    ),
    "extension.trace-context": _update("agent_message_chunk", _set(_meta={"traceparent": "abc"})),
    "initialize.version-returned": _result("protocolVersion", _set(protocolVersion=0)),
    "initialize.agent-info": _result("agentInfo", _drop("agentInfo")),
    "auth.method-ids": _result(
        "authMethods", lambda result: result["authMethods"].append(result["authMethods"][0])
    ),
    "auth.terminal-method-needs-capability": _result(
        "authMethods", lambda result: result["authMethods"].append(_TERMINAL)
    ),
    "session.list-entry-members": _result(
        "sessions",
        lambda result: [
            one.update(cwd="extra") for one in result["sessions"] if one["cwd"].endswith("extra")
        ],
    ),
    "session.list-first-page": _result("sessions", _set(sessions={})),
    "prompt.stop-reason": _result("stopReason", _set(stopReason="done")),
    "prompt.update-members": _update("agent_message_chunk", _drop("sessionUpdate")),
    "prompt.chunk-content": _update("agent_message_chunk", _set(content="hello")),
    "prompt.message-id-constant": _update("agent_message_chunk", _set(messageId="always")),
    "tool-call.members": _update("tool_call", _drop("title")),
    "tool-call.unique-id": lambda message: message,
    "tool-call.kind": _update("tool_call", _set(kind="zzz")),
    "tool-call.status": _update("tool_call", _set(status="waiting")),
    "tool-call.content": _update(
        "tool_call_update",
        lambda update: "content" in update and update.update(content=[{"type": "text", "text": "x"}]),
    ),
    "tool-call.absolute-paths": _update(
        "tool_call", lambda update: update.update(locations=[{"path": "notes.txt"}])
    ),
    "tool-call.line-number": _update(
        "tool_call", lambda update: [place.update(line=0) for place in update.get("locations", [])]
    ),
    "permission.request-members": _params(
        "session/request_permission", lambda params: params["toolCall"].pop("toolCallId")
    ),
    "permission.option-members": _params(
        "session/request_permission", lambda params: params["options"][-1].update(kind="no")
    ),
    "permission.option-ids": _params(
        "session/request_permission", lambda params: params["options"][-1].update(optionId="allow")
    ),
    "plan.entry-members": _update("plan", lambda update: update["entries"][0].pop("priority")),
    "mode.current-is-available": _result("modes", lambda result: result["modes"].update(currentModeId="zzz")),
    "option.current-value": _level(currentValue=None),
    "option.current-value-listed": _level(currentValue="zzz"),
    "option.flat-or-grouped": _level(options=_MIXED),
    "option.set-returns-all": _result(
        "configOptions",
        lambda result: "sessionId" not in result and result.update(configOptions=result["configOptions"][:1]),
    ),
    "option.update-has-all": _update(
        "config_option_update", lambda update: update.update(configOptions=update["configOptions"][:1])
    ),
    "command.members": _update(
        "available_commands_update", lambda update: update["availableCommands"][0].pop("description")
    ),
    "session-info.members": _update("session_info_update", _set(cwd="/tmp")),
    "usage.members": _update("usage_update", _set(used="many")),
    "usage.size": _update("usage_update", _set(size=0)),
    "file.absolute-paths": _params("fs/read_text_file", _set(path="notes.txt")),
    "terminal.absolute-cwd": _params("terminal/create", _set(cwd="here")),
    "elicitation.members": _params("elicitation/create", _drop("message")),
    "elicitation.one-scope": _params("elicitation/create", _set(requestId=1)),
    "elicitation.flat-schema": _params(
        "elicitation/create",
        lambda params: (
            "requestedSchema" in params
            and params["requestedSchema"]["properties"].update(more={"type": "object"})
        ),
    ),
    "elicitation.no-secrets": _params(
        "elicitation/create",
        lambda params: (
            "requestedSchema" in params
            and params["requestedSchema"]["properties"].update(password={"type": "string"})
        ),
    ),
    "elicitation.unique-id": _params(
        "elicitation/create", lambda params: "url" in params and params.update(elicitationId="one")
    ),
    "elicitation.url": _params(
        "elicitation/create",
        lambda params: "url" in params and params.update(url="https://example.com/?token=abc"),
    ),
    "elicitation.own-completions": _params("elicitation/complete", _set(elicitationId="another")),
    "notice.members": _update("notice", _drop("title")),
    "provider.headers-secret": _result(
        "providers", lambda result: result["providers"][1].update(_meta={"seen": "a-secret-of-the-check"})
    ),
    "usage.prompt-result": _result("usage", lambda result: result["usage"].pop("totalTokens")),
    "usage.cost": _update("usage_update", lambda update: update["cost"].update(currency=5)),
    "archive.needs-list": _result(
        "agentCapabilities", lambda result: result["agentCapabilities"]["sessionCapabilities"].pop("list")
    ),
    "archive.member-in-list": _result(
        "sessions", lambda result: [one.pop("archived") for one in result["sessions"]]
    ),
    "auth-status.members": _result("state", _drop("state")),
    "mcp.declared-server": _params("mcp/message", _set(serverId="another")),
    "subagent.absolute-paths": _update("subagent_update", _set(cwd="here")),
}
"""Functions that damage a message, by the rule they break."""
