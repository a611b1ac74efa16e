"""Repairs of `initialize`, session setup, config options and modes.

Imported on first use.
"""

from typing import Any, Final

from accord.schema.dialects.content_repairs import rename_label
from accord.schema.dialects.json_members import (
    SET_BY,
    VARIABLES,
    DialectRows,
    Object,
    each_in,
    is_array,
    is_object,
    mark,
    move,
    twins,
)

# Connection and session setup: capabilities, auth methods, MCP servers, environments.


def initialize_params(params: Object, rows: DialectRows) -> Object:
    """Client capabilities under another key (rows 37, 204).

    Nothing inside them is guessed: wrong names stay off.
    """
    params = dict(params)
    twins(params, "protocolVersion", "clientCapabilities", "clientInfo", rows=rows)
    version = params.get("protocolVersion")
    # Under a later version `capabilities` is that version's own object, which says nothing about this one.
    if type(version) is int and version == 1 and is_object(params.get("capabilities")):
        move(params, "clientCapabilities", "capabilities", row=37, rows=rows)
    offered = params.get("clientCapabilities")
    if is_object(offered) and is_object(offered.get("planCapabilities")):
        params["clientCapabilities"] = offered = dict(offered)
        move(offered, "plan", "planCapabilities", row=204, rows=rows)
    return params


def initialize_result(result: Object, rows: DialectRows) -> Object:
    """Keys, auth methods, and the boolean gate of an early `auth/status` (rows 73, 205, 207)."""
    result = dict(result)
    twins(result, "protocolVersion", "agentCapabilities", "agentInfo", "authMethods", rows=rows)
    each_in(result, "authMethods", _auth_method, rows)
    offered = result.get("agentCapabilities")
    if is_object(offered) and is_object(auth := offered.get("auth")) and auth.get("status") is True:
        result["agentCapabilities"] = offered | {"auth": auth | {"status": {}}}
        rows.add(207)
    return result


def _auth_method(method: Object, rows: DialectRows) -> Object:
    method = dict(method)
    rename_label(method, "name", rows)
    if method.get("type") == "env_var" and is_array(listed := method.get("vars")):
        names = [one.get("name") for one in listed if is_object(one)]
        meta = method.get("_meta")
        kept = [name for name in names if isinstance(name, str)]
        method["_meta"] = {**(meta if is_object(meta) else {}), VARIABLES: kept}
        rows.add(205)
    return method


def auth_status(result: Object, rows: DialectRows) -> Object:
    """`authenticated: true` of an early draft (row 207)."""
    if "state" in result or not isinstance(result.get("authenticated"), bool):
        return result
    rows.add(207)
    return result | {"state": "authenticated" if result["authenticated"] else "unauthenticated"}


def session_params(params: Object, rows: DialectRows, *, servers_required: bool) -> Object:
    """The parameters that set up a session. Roots are never touched: leniency neither adds nor drops one."""
    params = dict(params)
    twins(params, "sessionId", "mcpServers", "systemPrompt", rows=rows)
    if "mcpServers" in params:
        params["mcpServers"] = _servers(params["mcpServers"], rows)
    elif servers_required:
        params["mcpServers"] = []
        rows.add(32)
    return params


def _servers(value: Any, rows: DialectRows) -> Any:
    if is_object(value):
        if not all(is_object(server) for server in value.values()):
            return value
        rows.add(33)
        value = [{"name": name, **server} for name, server in value.items()]
    return (
        [_server(server, rows) if is_object(server) else server for server in value]
        if is_array(value)
        else value
    )


def _server(server: Object, rows: DialectRows) -> Object:
    server = dict(server)
    kind = server.get("type")
    if kind in ("http", "sse"):
        pairs(server, "headers", rows, required=True)
    elif kind == "acp":
        twins(server, "serverId", rows=rows)
        move(server, "serverId", "id", "acpId", row=74, rows=rows)
    elif "command" in server:
        if kind == "stdio":
            del server["type"]
            rows.add(34)
        if "args" not in server:
            server["args"] = []
            rows.add(35)
        pairs(server, "env", rows, required=True)
    return server


def pairs(obj: Object, key: str, rows: DialectRows, *, required: bool = False) -> None:
    """A map of strings in place of a list of name and value (row 35)."""
    if key not in obj:
        if required:
            obj[key] = []
            rows.add(35)
        return
    value = obj[key]
    if is_object(value) and all(isinstance(text, str) for text in value.values()):
        obj[key] = [{"name": name, "value": text} for name, text in value.items()]
        rows.add(35)


def provider(info: Object, rows: DialectRows) -> Object:
    """A provider named by `id` (row 74)."""
    info = dict(info)
    twins(info, *_PROVIDER_KEYS, rows=rows)
    move(info, "providerId", "id", row=74, rows=rows)
    return info


_PROVIDER_KEYS: Final = ("providerId", "apiType", "baseUrl")


# Config options, modes, and the `models` object of older agents.


def config_option(option: Object, rows: DialectRows) -> Object:
    """A config option with an id, a name and a current value (row 47)."""
    option = dict(option)
    twins(option, "currentValue", rows=rows)
    move(option, "id", "configId", "config_id", row=47, rows=rows)
    if "name" not in option and isinstance(option.get("id"), str):
        option["name"] = option["id"]
        rows.add(47)
    if option.get("type") == "select":
        if option.get("currentValue") is None:
            option["currentValue"] = ""
            rows.add(47)
        each_in(option, "options", _choice, rows)
    return option


def _choice(choice: Object, rows: DialectRows) -> Object:
    choice = dict(choice)
    if "options" in choice:
        each_in(choice, "options", _choice_of_group, rows)
        return choice
    return _choice_of_group(choice, rows)


def _choice_of_group(choice: Object, rows: DialectRows) -> Object:
    if "name" in choice or not isinstance(choice.get("value"), str):
        return choice
    rows.add(47)
    return choice | {"name": choice["value"]}


def session_state(result: Object, rows: DialectRows) -> Object:
    """The result of a method that starts a session: its modes, options and models."""
    result = dict(result)
    twins(result, "sessionId", "configOptions", rows=rows)
    each_in(result, "configOptions", config_option, rows)
    modes = result.get("modes")
    if is_object(modes):
        result["modes"] = modes = dict(modes)
        twins(modes, "currentModeId", "availableModes", rows=rows)
        each_in(modes, "availableModes", _mode, rows)
    _models(result, rows)
    return result


def _mode(mode: Object, rows: DialectRows) -> Object:
    mode = dict(mode)
    rename_label(mode, "name", rows)
    return mode


def _models(result: Object, rows: DialectRows) -> None:
    """Make a select option of the `models` object, unless the model has an option already (row 42)."""
    models = result.get("models")
    options = result.get("configOptions")
    if not is_object(models) or (is_array(options) and any(_is_model(option) for option in options)):
        return
    models = dict(models)
    twins(models, "currentModelId", "availableModels", rows=rows)
    available = models.get("availableModels")
    choices = [choice for model in available if (choice := _model(model))] if is_array(available) else []
    current = models.get("currentModelId")
    if not isinstance(current, str):
        current = ""
    if not choices and current:
        choices = [{"value": current, "name": current}]
    if not choices:
        return
    option: Object = {
        "id": "model",
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": current,
        "options": choices,
    }
    mark(option, SET_BY, "session/set_model")
    result["configOptions"] = [*options, option] if is_array(options) else [option]
    rows.add(42)


def _is_model(option: Any) -> bool:
    return is_object(option) and (option.get("category") == "model" or option.get("id") == "model")


def _model(model: Any) -> Object | None:
    if not is_object(model):
        return None
    value = model.get("modelId", model.get("model_id"))
    if not isinstance(value, str):
        return None
    name, description = model.get("name"), model.get("description")
    choice: Object = {"value": value, "name": name if isinstance(name, str) else value}
    return choice | {"description": description} if isinstance(description, str) else choice
