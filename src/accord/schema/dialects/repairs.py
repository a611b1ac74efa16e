"""Converts one message of a known method to the official form, and reports the dialect rows that it applied.

Used if the official form of a message does not decode, and for a few members also if it does (see
`PARAMS_TELLTALES` in `accord.schema.message_reader`). An official message is returned unchanged, without
rows.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from accord.schema.content import StopReason
from accord.schema.dialects.content_repairs import (
    repair_form_schema,
    repair_permission_request,
    repair_prompt,
)
from accord.schema.dialects.json_members import (
    FINAL_TEXT,
    STOP_REASON_AS_SENT,
    DialectRows,
    Object,
    RepairedMessage,
    fix_spelling,
    is_array,
    is_object,
    rename_snake_keys,
    repair_member_items,
    set_note,
)
from accord.schema.dialects.permission_outcome import read_outcome
from accord.schema.dialects.session_repairs import (
    repair_auth_status,
    repair_config_option,
    repair_initialize_params,
    repair_initialize_result,
    repair_pairs,
    repair_provider,
    repair_session_params,
    repair_session_result,
)
from accord.schema.dialects.update_repairs import repair_session_update
from accord.schema.methods import METHOD_ALIASES

Repair = Callable[[Object, DialectRows], Object]

_STOP_REASONS: Final = frozenset(get_args(StopReason))

VOID_RESULTS: Final = {
    **dict.fromkeys(("authenticate", "logout", "providers/set", "providers/disable"), 103),
    **dict.fromkeys(("session/close", "session/delete", "session/archive", "session/unarchive"), 103),
    **dict.fromkeys(("session/set_mode", "fs/write_text_file", "terminal/kill", "terminal/release"), 103),
    **dict.fromkeys(("session/load", "session/resume"), 104),
}


def repair_params(method: str, params: Any, *, session: str | None = None) -> RepairedMessage:
    """Convert parameters to the official form.

    `session` is the session of the only running turn, for peers that do not send the session id.
    """
    if params is None:
        params = {}
    if not is_object(params):
        return RepairedMessage(params)
    rows = DialectRows()
    method = method if method == "session/set_model" else METHOD_ALIASES.get(method, method)
    if method == "session/update":
        first, *more = repair_session_update(params, rows)
        return RepairedMessage(first, tuple(rows), tuple(more)) if rows else RepairedMessage(params)
    if method == "session/request_permission":
        value = repair_permission_request(params, rows, session)
    else:
        value = _PARAMS_REPAIRS.get(method, _unchanged)(params, rows)
    return RepairedMessage(value, tuple(rows)) if rows else RepairedMessage(params)


def repair_result(method: str, result: Any, request_params: Any = None) -> RepairedMessage:
    """Convert a result to the official form. `request_params` has the options of a permission request."""
    method = METHOD_ALIASES.get(method, method)
    if method == "session/request_permission":
        return _permission_answer(result, request_params)
    rows = DialectRows()
    if result is None and method in VOID_RESULTS:
        return RepairedMessage({}, (VOID_RESULTS[method],))
    if method == "session/set_config_option":
        result = {} if result is None else result
    if not is_object(result):
        return RepairedMessage(result)
    value = _RESULT_REPAIRS.get(method, _unchanged)(result, rows)
    return RepairedMessage(value, tuple(rows)) if rows else RepairedMessage(result)


def _unchanged(obj: Object, rows: DialectRows) -> Object:
    return obj


def _rename_keys(*keys: str) -> Repair:
    def repair(obj: Object, rows: DialectRows) -> Object:
        obj = dict(obj)
        rename_snake_keys(obj, *keys, rows=rows)
        return obj

    return repair


def _new_session_params(params: Object, rows: DialectRows) -> Object:
    return repair_session_params(params, rows, servers_required=True)


def _resume_session_params(params: Object, rows: DialectRows) -> Object:
    return repair_session_params(params, rows, servers_required=False)


def _prompt_params(params: Object, rows: DialectRows) -> Object:
    params = dict(params)
    rename_snake_keys(params, "sessionId", rows=rows)
    if "prompt" in params:
        params["prompt"] = repair_prompt(params["prompt"], rows)
    return params


def _set_config_option_params(params: Object, rows: DialectRows) -> Object:
    params = dict(params)
    rename_snake_keys(params, "sessionId", "configId", rows=rows)
    if isinstance(params.get("value"), bool) and "type" not in params:
        params["type"] = "boolean"
        rows.add(44)
    return params


def _set_model_params(params: Object, rows: DialectRows) -> Object:
    params = dict(params)
    rename_snake_keys(params, "sessionId", "modelId", rows=rows)
    if "modelId" in params:
        params |= {"configId": "model", "value": params.pop("modelId")}
        rows.add(201)
    return params


def _create_terminal_params(params: Object, rows: DialectRows) -> Object:
    params = dict(params)
    rename_snake_keys(params, "sessionId", "outputByteLimit", rows=rows)
    repair_pairs(params, "env", rows)
    return params


def _elicitation_params(params: Object, rows: DialectRows) -> Object:
    params = dict(params)
    rename_snake_keys(
        params, "sessionId", "toolCallId", "requestId", "requestedSchema", "elicitationId", rows=rows
    )
    if is_object(params.get("requestedSchema")):
        params["requestedSchema"] = repair_form_schema(params["requestedSchema"], rows)
    return params


def _prompt_result(result: Object, rows: DialectRows) -> Object:
    result = dict(result)
    rename_snake_keys(result, "stopReason", rows=rows)
    fix_spelling(result, "stopReason", _STOP_REASONS, rows)
    if result.get("stopReason") == "tool_use":
        result["stopReason"] = "end_turn"
        set_note(result, STOP_REASON_AS_SENT, "tool_use")
        rows.add(4)
    if is_object(result.get("usage")):
        counters = ("total", "input", "output", "thought", "cachedRead", "cachedWrite")
        result["usage"] = _rename_keys(*(f"{name}Tokens" for name in counters))(result["usage"], rows)
    if isinstance(result.get("content"), str):
        set_note(result, FINAL_TEXT, result.pop("content"))
        rows.add(3)
    return result


def _set_config_option_result(result: Object, rows: DialectRows) -> Object:
    result = dict(result)
    rename_snake_keys(result, "configOptions", rows=rows)
    if "configOptions" not in result:
        # The agent has at least the option that was set, so an empty list means "not reported".
        result["configOptions"] = []
        rows.add(44)
    repair_member_items(result, "configOptions", repair_config_option, rows)
    return result


def _provider_list_result(result: Object, rows: DialectRows) -> Object:
    result = dict(result)
    repair_member_items(result, "providers", _provider_info, rows)
    return result


def _provider_info(info: Object, rows: DialectRows) -> Object:
    info = repair_provider(info, rows)
    if is_object(info.get("current")):
        info["current"] = _rename_keys("apiType", "baseUrl")(info["current"], rows)
    return info


def _session_list_result(result: Object, rows: DialectRows) -> Object:
    result = dict(result)
    rename_snake_keys(result, "nextCursor", rows=rows)
    repair_member_items(result, "sessions", _rename_keys("sessionId", "updatedAt"), rows)
    return result


def _terminal_output_result(result: Object, rows: DialectRows) -> Object:
    result = dict(result)
    rename_snake_keys(result, "exitStatus", rows=rows)
    if is_object(result.get("exitStatus")):
        result["exitStatus"] = _rename_keys("exitCode")(result["exitStatus"], rows)
    return result


def _permission_answer(result: Any, request_params: Any) -> RepairedMessage:
    if is_object(result) and is_object(result.get("outcome")) and _is_official(result["outcome"]):
        return RepairedMessage(result)
    outcome = read_outcome(result, _offered_options(request_params))
    if outcome.option_id is None:
        return RepairedMessage({"outcome": {"outcome": "cancelled"}}, (26,))
    chosen = {"outcome": "selected", "optionId": outcome.option_id}
    return RepairedMessage({"outcome": chosen}, outcome.rows)


def _is_official(outcome: Object) -> bool:
    chosen = outcome.get("outcome")
    return chosen == "cancelled" or (chosen == "selected" and isinstance(outcome.get("optionId"), str))


def _offered_options(request_params: Any) -> list[tuple[str, str]]:
    options = request_params.get("options") if is_object(request_params) else None
    return [
        (option["optionId"], option["kind"])
        for option in (options if is_array(options) else [])
        if is_object(option)
        and isinstance(option.get("optionId"), str)
        and isinstance(option.get("kind"), str)
    ]


_SESSION_ID = _rename_keys("sessionId")
_TERMINAL_ID = _rename_keys("sessionId", "terminalId")

_PARAMS_REPAIRS: Final[Mapping[str, Repair]] = {
    "initialize": repair_initialize_params,
    "proxy/initialize": repair_initialize_params,
    "authenticate": _rename_keys("methodId"),
    "session/new": _new_session_params,
    "session/load": _new_session_params,
    "session/resume": _resume_session_params,
    "session/fork": _resume_session_params,
    "session/prompt": _prompt_params,
    "session/cancel": _SESSION_ID,
    "session/close": _SESSION_ID,
    "session/delete": _SESSION_ID,
    "session/archive": _SESSION_ID,
    "session/unarchive": _SESSION_ID,
    "session/status": _SESSION_ID,
    "session/set_title": _SESSION_ID,
    "session/set_mode": _rename_keys("sessionId", "modeId"),
    "session/set_config_option": _set_config_option_params,
    "session/set_model": _set_model_params,
    "providers/set": repair_provider,
    "providers/disable": repair_provider,
    "mcp/message": _rename_keys("serverId", "requestId"),
    "fs/read_text_file": _SESSION_ID,
    "fs/write_text_file": _SESSION_ID,
    "terminal/create": _create_terminal_params,
    "terminal/output": _TERMINAL_ID,
    "terminal/wait_for_exit": _TERMINAL_ID,
    "terminal/kill": _TERMINAL_ID,
    "terminal/release": _TERMINAL_ID,
    "elicitation/create": _elicitation_params,
    "elicitation/complete": _rename_keys("elicitationId"),
    "$/cancel_request": _rename_keys("requestId"),
}

_RESULT_REPAIRS: Final[Mapping[str, Repair]] = {
    "initialize": repair_initialize_result,
    "proxy/initialize": repair_initialize_result,
    "session/new": repair_session_result,
    "session/load": repair_session_result,
    "session/resume": repair_session_result,
    "session/fork": repair_session_result,
    "session/prompt": _prompt_result,
    "session/list": _session_list_result,
    "session/set_config_option": _set_config_option_result,
    "providers/list": _provider_list_result,
    "auth/status": repair_auth_status,
    "terminal/create": _rename_keys("terminalId"),
    "terminal/output": _terminal_output_result,
    "terminal/wait_for_exit": _rename_keys("exitCode"),
}
