"""One message of a known method: parsed JSON in, the official shape out, with the dialect rows it took.

Tried when the official reading of the untouched message failed, and for a few members also when it passed
(see `telltales.py`). A message in official shape comes back as it is, with no rows.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from accord.schema.dialects.content_repairs import form_schema, permission_request, prompt
from accord.schema.dialects.json_members import (
    FINAL_TEXT,
    STOP_REASON_AS_SENT,
    DialectRows,
    Object,
    RepairedMessage,
    each_in,
    is_array,
    is_object,
    mark,
    spell,
    twins,
)
from accord.schema.dialects.permission_outcome import read_outcome
from accord.schema.dialects.session_repairs import (
    auth_status,
    config_option,
    initialize_params,
    initialize_result,
    pairs,
    provider,
    session_params,
    session_state,
)
from accord.schema.dialects.update_repairs import session_update
from accord.schema.methods import METHOD_ALIASES

Repair = Callable[[Object, DialectRows], Object]

_STOP_REASONS: Final = frozenset(("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"))

VOID_RESULTS: Final = {
    "authenticate": 103,
    "logout": 103,
    "session/close": 103,
    "session/delete": 103,
    "session/archive": 103,
    "session/unarchive": 103,
    "session/set_mode": 103,
    "providers/set": 103,
    "providers/disable": 103,
    "fs/write_text_file": 103,
    "terminal/kill": 103,
    "terminal/release": 103,
    "session/load": 104,
    "session/resume": 104,
}


def repair_params(method: str, params: Any, *, session: str | None = None) -> RepairedMessage:
    """The parameters in official shape.

    `session` is the id of the one active turn, for peers that do not name it.
    """
    if params is None:
        params = {}
    if not is_object(params):
        return RepairedMessage(params)
    rows = DialectRows()
    method = method if method == "session/set_model" else METHOD_ALIASES.get(method, method)
    if method == "session/update":
        first, *more = session_update(params, rows)
        return RepairedMessage(first, tuple(rows), tuple(more)) if rows else RepairedMessage(params)
    if method == "session/request_permission":
        value = permission_request(params, rows, session)
    else:
        value = _PARAMS.get(method, _same)(params, rows)
    return RepairedMessage(value, tuple(rows)) if rows else RepairedMessage(params)


def repair_result(method: str, result: Any, request_params: Any = None) -> RepairedMessage:
    """The result in official shape. A permission answer is judged by the options in `request_params`."""
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
    value = _RESULTS.get(method, _same)(result, rows)
    return RepairedMessage(value, tuple(rows)) if rows else RepairedMessage(result)


def _same(obj: Object, rows: DialectRows) -> Object:
    return obj


def _keys(*keys: str) -> Repair:
    def repair(obj: Object, rows: DialectRows) -> Object:
        obj = dict(obj)
        twins(obj, *keys, rows=rows)
        return obj

    return repair


def _new(params: Object, rows: DialectRows) -> Object:
    return session_params(params, rows, servers_required=True)


def _again(params: Object, rows: DialectRows) -> Object:
    return session_params(params, rows, servers_required=False)


def _prompt(params: Object, rows: DialectRows) -> Object:
    params = dict(params)
    twins(params, "sessionId", rows=rows)
    if "prompt" in params:
        params["prompt"] = prompt(params["prompt"], rows)
    return params


def _set_config_option(params: Object, rows: DialectRows) -> Object:
    params = dict(params)
    twins(params, "sessionId", "configId", rows=rows)
    if isinstance(params.get("value"), bool) and "type" not in params:
        params["type"] = "boolean"
        rows.add(44)
    return params


def _set_model(params: Object, rows: DialectRows) -> Object:
    params = dict(params)
    twins(params, "sessionId", "modelId", rows=rows)
    if "modelId" in params:
        params |= {"configId": "model", "value": params.pop("modelId")}
        rows.add(201)
    return params


def _create_terminal(params: Object, rows: DialectRows) -> Object:
    params = dict(params)
    twins(params, "sessionId", "outputByteLimit", rows=rows)
    pairs(params, "env", rows)
    return params


def _elicitation(params: Object, rows: DialectRows) -> Object:
    params = dict(params)
    twins(params, "sessionId", "toolCallId", "requestId", "requestedSchema", "elicitationId", rows=rows)
    if is_object(params.get("requestedSchema")):
        params["requestedSchema"] = form_schema(params["requestedSchema"], rows)
    return params


def _prompt_result(result: Object, rows: DialectRows) -> Object:
    result = dict(result)
    twins(result, "stopReason", rows=rows)
    spell(result, "stopReason", _STOP_REASONS, rows)
    if result.get("stopReason") == "tool_use":
        result["stopReason"] = "end_turn"
        mark(result, STOP_REASON_AS_SENT, "tool_use")
        rows.add(4)
    if is_object(result.get("usage")):
        counters = ("total", "input", "output", "thought", "cachedRead", "cachedWrite")
        result["usage"] = _keys(*(f"{name}Tokens" for name in counters))(result["usage"], rows)
    if isinstance(result.get("content"), str):
        mark(result, FINAL_TEXT, result.pop("content"))
        rows.add(3)
    return result


def _set_config_option_result(result: Object, rows: DialectRows) -> Object:
    result = dict(result)
    twins(result, "configOptions", rows=rows)
    if "configOptions" not in result:
        # An agent that was just told to set an option has at least that one: an empty list says "not
        # reported".
        result["configOptions"] = []
        rows.add(44)
    each_in(result, "configOptions", config_option, rows)
    return result


def _providers(result: Object, rows: DialectRows) -> Object:
    result = dict(result)
    each_in(result, "providers", _provider_info, rows)
    return result


def _provider_info(info: Object, rows: DialectRows) -> Object:
    info = provider(info, rows)
    if is_object(info.get("current")):
        info["current"] = _keys("apiType", "baseUrl")(info["current"], rows)
    return info


def _sessions(result: Object, rows: DialectRows) -> Object:
    result = dict(result)
    twins(result, "nextCursor", rows=rows)
    each_in(result, "sessions", _keys("sessionId", "updatedAt"), rows)
    return result


def _terminal_output(result: Object, rows: DialectRows) -> Object:
    result = dict(result)
    twins(result, "exitStatus", rows=rows)
    if is_object(result.get("exitStatus")):
        result["exitStatus"] = _keys("exitCode")(result["exitStatus"], rows)
    return result


def _permission_answer(result: Any, request_params: Any) -> RepairedMessage:
    if is_object(result) and is_object(result.get("outcome")) and _is_official(result["outcome"]):
        return RepairedMessage(result)
    outcome = read_outcome(result, _offered(request_params))
    if outcome.option_id is None:
        return RepairedMessage({"outcome": {"outcome": "cancelled"}}, (26,))
    chosen = {"outcome": "selected", "optionId": outcome.option_id}
    return RepairedMessage({"outcome": chosen}, outcome.rows)


def _is_official(outcome: Object) -> bool:
    chosen = outcome.get("outcome")
    return chosen == "cancelled" or (chosen == "selected" and isinstance(outcome.get("optionId"), str))


def _offered(request_params: Any) -> list[tuple[str, str]]:
    options = request_params.get("options") if is_object(request_params) else None
    return [
        (option["optionId"], option["kind"])
        for option in (options if is_array(options) else [])
        if is_object(option)
        and isinstance(option.get("optionId"), str)
        and isinstance(option.get("kind"), str)
    ]


_SESSION = _keys("sessionId")
_TERMINAL = _keys("sessionId", "terminalId")

_PARAMS: Final[Mapping[str, Repair]] = {
    "initialize": initialize_params,
    "proxy/initialize": initialize_params,
    "authenticate": _keys("methodId"),
    "session/new": _new,
    "session/load": _new,
    "session/resume": _again,
    "session/fork": _again,
    "session/prompt": _prompt,
    "session/cancel": _SESSION,
    "session/close": _SESSION,
    "session/delete": _SESSION,
    "session/archive": _SESSION,
    "session/unarchive": _SESSION,
    "session/status": _SESSION,
    "session/set_title": _SESSION,
    "session/set_mode": _keys("sessionId", "modeId"),
    "session/set_config_option": _set_config_option,
    "session/set_model": _set_model,
    "providers/set": provider,
    "providers/disable": provider,
    "mcp/message": _keys("serverId", "requestId"),
    "fs/read_text_file": _SESSION,
    "fs/write_text_file": _SESSION,
    "terminal/create": _create_terminal,
    "terminal/output": _TERMINAL,
    "terminal/wait_for_exit": _TERMINAL,
    "terminal/kill": _TERMINAL,
    "terminal/release": _TERMINAL,
    "elicitation/create": _elicitation,
    "elicitation/complete": _keys("elicitationId"),
    "$/cancel_request": _keys("requestId"),
}

_RESULTS: Final[Mapping[str, Repair]] = {
    "initialize": initialize_result,
    "proxy/initialize": initialize_result,
    "session/new": session_state,
    "session/load": session_state,
    "session/resume": session_state,
    "session/fork": session_state,
    "session/prompt": _prompt_result,
    "session/list": _sessions,
    "session/set_config_option": _set_config_option_result,
    "providers/list": _providers,
    "auth/status": auth_status,
    "terminal/create": _keys("terminalId"),
    "terminal/output": _terminal_output,
    "terminal/wait_for_exit": _keys("exitCode"),
}
