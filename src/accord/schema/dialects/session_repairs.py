"""Repairs of `initialize`, session setup, config options and modes.

Imported on first use.
"""

from typing import Any, Final

from accord.schema.dialects.content_repairs import rename_label_key
from accord.schema.dialects.json_members import (
    SET_BY,
    VARIABLES,
    DialectRows,
    Object,
    is_array,
    is_object,
    rename_key,
    rename_snake_keys,
    repair_member_items,
    set_note,
)

# Connection and session setup: capabilities, auth methods, MCP servers, environments.


def repair_initialize_params(params: Object, rows: DialectRows) -> Object:
    """Rename the keys of client capabilities (rows 37, 204). Unknown names inside are ignored."""
    params = dict(params)
    rename_snake_keys(params, "protocolVersion", "clientCapabilities", "clientInfo", rows=rows)
    version = params.get("protocolVersion")
    # A later version of the protocol has its own `capabilities`, which do not apply to version 1.
    if type(version) is int and version == 1 and is_object(params.get("capabilities")):
        rename_key(params, "clientCapabilities", "capabilities", row=37, rows=rows)
    capabilities = params.get("clientCapabilities")
    if is_object(capabilities) and is_object(capabilities.get("planCapabilities")):
        params["clientCapabilities"] = capabilities = dict(capabilities)
        rename_key(capabilities, "plan", "planCapabilities", row=204, rows=rows)
    return params


def repair_initialize_result(result: Object, rows: DialectRows) -> Object:
    """Repair the keys, the auth methods, and the boolean `auth.status` of an early draft (rows 205, 207)."""
    result = dict(result)
    rename_snake_keys(result, "protocolVersion", "agentCapabilities", "agentInfo", "authMethods", rows=rows)
    repair_member_items(result, "authMethods", _repair_auth_method, rows)
    capabilities = result.get("agentCapabilities")
    if is_object(capabilities) and is_object(auth := capabilities.get("auth")) and auth.get("status") is True:
        result["agentCapabilities"] = capabilities | {"auth": auth | {"status": {}}}
        rows.add(207)
    return result


def _repair_auth_method(method: Object, rows: DialectRows) -> Object:
    method = dict(method)
    rename_label_key(method, "name", rows)
    if method.get("type") == "env_var" and is_array(listed := method.get("vars")):
        names = [variable.get("name") for variable in listed if is_object(variable)]
        meta = method.get("_meta")
        variable_names = [name for name in names if isinstance(name, str)]
        method["_meta"] = {**(meta if is_object(meta) else {}), VARIABLES: variable_names}
        rows.add(205)
    return method


def repair_auth_status(result: Object, rows: DialectRows) -> Object:
    """Convert `authenticated` of an early draft to `state` (row 207)."""
    if "state" in result or not isinstance(result.get("authenticated"), bool):
        return result
    rows.add(207)
    return result | {"state": "authenticated" if result["authenticated"] else "unauthenticated"}


def repair_session_params(params: Object, rows: DialectRows, *, servers_required: bool) -> Object:
    """Repair the parameters that open a session. The directories are never changed."""
    params = dict(params)
    rename_snake_keys(params, "sessionId", "mcpServers", "systemPrompt", rows=rows)
    if "mcpServers" in params:
        params["mcpServers"] = _repair_servers(params["mcpServers"], rows)
    elif servers_required:
        params["mcpServers"] = []
        rows.add(32)
    return params


def _repair_servers(value: Any, rows: DialectRows) -> Any:
    if is_object(value):
        if not all(is_object(server) for server in value.values()):
            return value
        rows.add(33)
        value = [{"name": name, **server} for name, server in value.items()]
    return (
        [_repair_server(server, rows) if is_object(server) else server for server in value]
        if is_array(value)
        else value
    )


def _repair_server(server: Object, rows: DialectRows) -> Object:
    server = dict(server)
    kind = server.get("type")
    if kind in ("http", "sse"):
        repair_pairs(server, "headers", rows, required=True)
    elif kind == "acp":
        rename_snake_keys(server, "serverId", rows=rows)
        rename_key(server, "serverId", "id", "acpId", row=74, rows=rows)
    elif "command" in server:
        if kind == "stdio":
            del server["type"]
            rows.add(34)
        if "args" not in server:
            server["args"] = []
            rows.add(35)
        repair_pairs(server, "env", rows, required=True)
    return server


def repair_pairs(obj: Object, key: str, rows: DialectRows, *, required: bool = False) -> None:
    """Convert a map of strings to a list of objects with `name` and `value` (row 35)."""
    if key not in obj:
        if required:
            obj[key] = []
            rows.add(35)
        return
    value = obj[key]
    if is_object(value) and all(isinstance(text, str) for text in value.values()):
        obj[key] = [{"name": name, "value": text} for name, text in value.items()]
        rows.add(35)


def repair_provider(info: Object, rows: DialectRows) -> Object:
    """Repair the keys of a provider; `id` becomes `providerId` (row 74)."""
    info = dict(info)
    rename_snake_keys(info, *_PROVIDER_KEYS, rows=rows)
    rename_key(info, "providerId", "id", row=74, rows=rows)
    return info


_PROVIDER_KEYS: Final = ("providerId", "apiType", "baseUrl")


# Config options, modes, and the `models` object of older agents.


def repair_config_option(option: Object, rows: DialectRows) -> Object:
    """Add a missing id, name or current value to a config option (row 47)."""
    option = dict(option)
    rename_snake_keys(option, "currentValue", rows=rows)
    rename_key(option, "id", "configId", "config_id", row=47, rows=rows)
    if "name" not in option and isinstance(option.get("id"), str):
        option["name"] = option["id"]
        rows.add(47)
    if option.get("type") == "select":
        if option.get("currentValue") is None:
            option["currentValue"] = ""
            rows.add(47)
        repair_member_items(option, "options", _repair_choice, rows)
    return option


def _repair_choice(choice: Object, rows: DialectRows) -> Object:
    choice = dict(choice)
    if "options" in choice:
        repair_member_items(choice, "options", _add_choice_name, rows)
        return choice
    return _add_choice_name(choice, rows)


def _add_choice_name(choice: Object, rows: DialectRows) -> Object:
    if "name" in choice or not isinstance(choice.get("value"), str):
        return choice
    rows.add(47)
    return choice | {"name": choice["value"]}


def repair_session_result(result: Object, rows: DialectRows) -> Object:
    """Repair the modes, options and models in the result of a method that opens a session."""
    result = dict(result)
    rename_snake_keys(result, "sessionId", "configOptions", rows=rows)
    repair_member_items(result, "configOptions", repair_config_option, rows)
    modes = result.get("modes")
    if is_object(modes):
        result["modes"] = modes = dict(modes)
        rename_snake_keys(modes, "currentModeId", "availableModes", rows=rows)
        repair_member_items(modes, "availableModes", _repair_mode, rows)
    _add_model_option(result, rows)
    return result


def _repair_mode(mode: Object, rows: DialectRows) -> Object:
    mode = dict(mode)
    rename_label_key(mode, "name", rows)
    return mode


def _add_model_option(result: Object, rows: DialectRows) -> None:
    """Convert the `models` object to a select option, unless there is a model option (row 42)."""
    models = result.get("models")
    options = result.get("configOptions")
    if not is_object(models) or (is_array(options) and any(_is_model_option(option) for option in options)):
        return
    models = dict(models)
    rename_snake_keys(models, "currentModelId", "availableModels", rows=rows)
    available = models.get("availableModels")
    choices = (
        [choice for model in available if (choice := _model_choice(model))] if is_array(available) else []
    )
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
    set_note(option, SET_BY, "session/set_model")
    result["configOptions"] = [*options, option] if is_array(options) else [option]
    rows.add(42)


def _is_model_option(option: Any) -> bool:
    return is_object(option) and (option.get("category") == "model" or option.get("id") == "model")


def _model_choice(model: Any) -> Object | None:
    if not is_object(model):
        return None
    value = model.get("modelId", model.get("model_id"))
    if not isinstance(value, str):
        return None
    name, description = model.get("name"), model.get("description")
    choice: Object = {"value": value, "name": name if isinstance(name, str) else value}
    return choice | {"description": description} if isinstance(description, str) else choice
