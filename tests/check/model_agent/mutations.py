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
    7: _no_version,
    9: _text_id,
    27: _bad_error,
    42: _update("agent_message_chunk", _set(mine=1)),
    46: _result("agentCapabilities", lambda result: result["agentCapabilities"].pop("_meta")),
    48: _update("agent_message_chunk", _set(_meta={"traceparent": "abc"})),
    62: _result("protocolVersion", _set(protocolVersion=0)),
    67: _result("agentInfo", _drop("agentInfo")),
    76: _result("authMethods", lambda result: result["authMethods"].append(result["authMethods"][0])),
    77: _result("authMethods", lambda result: result["authMethods"].append(_TERMINAL)),
    120: _result(
        "sessions",
        lambda result: [
            one.update(cwd="extra") for one in result["sessions"] if one["cwd"].endswith("extra")
        ],
    ),
    117: _result("sessions", _set(sessions={})),
    142: _result("stopReason", _set(stopReason="done")),
    145: _update("agent_message_chunk", _drop("sessionUpdate")),
    146: _update("agent_message_chunk", _set(content="hello")),
    147: _update("agent_message_chunk", _set(messageId="always")),
    173: _update("tool_call", _drop("title")),
    174: lambda message: message,
    175: _update("tool_call", _set(kind="zzz")),
    176: _update("tool_call", _set(status="waiting")),
    177: _update(
        "tool_call_update",
        lambda update: "content" in update and update.update(content=[{"type": "text", "text": "x"}]),
    ),
    178: _update("tool_call", lambda update: update.update(locations=[{"path": "notes.txt"}])),
    180: _update("tool_call", lambda update: [place.update(line=0) for place in update.get("locations", [])]),
    193: _params("session/request_permission", lambda params: params["toolCall"].pop("toolCallId")),
    194: _params("session/request_permission", lambda params: params["options"][-1].update(kind="no")),
    195: _params("session/request_permission", lambda params: params["options"][-1].update(optionId="allow")),
    205: _update("plan", lambda update: update["entries"][0].pop("priority")),
    206: _result("modes", lambda result: result["modes"].update(currentModeId="zzz")),
    212: _level(currentValue=None),
    213: _level(currentValue="zzz"),
    214: _level(options=_MIXED),
    215: _result(
        "configOptions",
        lambda result: "sessionId" not in result and result.update(configOptions=result["configOptions"][:1]),
    ),
    216: _update(
        "config_option_update", lambda update: update.update(configOptions=update["configOptions"][:1])
    ),
    227: _update(
        "available_commands_update", lambda update: update["availableCommands"][0].pop("description")
    ),
    232: _update("session_info_update", _set(cwd="/tmp")),
    233: _update("usage_update", _set(used="many")),
    235: _update("usage_update", _set(size=0)),
    238: _params("fs/read_text_file", _set(path="notes.txt")),
    258: _params("terminal/create", _set(cwd="here")),
    262: _params("elicitation/create", _drop("message")),
    263: _params("elicitation/create", _set(requestId=1)),
    264: _params(
        "elicitation/create",
        lambda params: (
            "requestedSchema" in params
            and params["requestedSchema"]["properties"].update(more={"type": "object"})
        ),
    ),
    265: _params(
        "elicitation/create",
        lambda params: (
            "requestedSchema" in params
            and params["requestedSchema"]["properties"].update(password={"type": "string"})
        ),
    ),
    267: _params("elicitation/create", lambda params: "url" in params and params.update(elicitationId="one")),
    268: _params(
        "elicitation/create",
        lambda params: "url" in params and params.update(url="https://example.com/?token=abc"),
    ),
    269: _params("elicitation/complete", _set(elicitationId="another")),
    287: _update("notice", _drop("title")),
    300: _result(
        "providers", lambda result: result["providers"][1].update(_meta={"seen": "a-secret-of-the-check"})
    ),
    310: _result("usage", lambda result: result["usage"].pop("totalTokens")),
    320: _update("usage_update", lambda update: update["cost"].update(currency=5)),
    331: _result(
        "agentCapabilities", lambda result: result["agentCapabilities"]["sessionCapabilities"].pop("list")
    ),
    338: _result("sessions", lambda result: [one.pop("archived") for one in result["sessions"]]),
    359: _result("state", _drop("state")),
    364: _params("mcp/message", _set(serverId="another")),
    376: _update("subagent_update", _set(cwd="here")),
}
"""Functions that damage a message, by the rule they break."""
