"""Checks of one dialect repair: which rows it used, that the input is unchanged, that the result is
official.
"""

import copy
import json
from typing import Any

from accord.schema import codec
from accord.schema.dialects import repair_params, repair_result
from accord.schema.methods import METHOD_ALIASES, METHODS, Method


def method_of(name: str) -> Method:
    """The method that serves this name, official or not. Prefers a request over a notification of the same
    name.
    """
    official = METHOD_ALIASES.get(name, name)
    return max((m for m in METHODS if m.name == official), key=lambda m: m.kind == "request")


def read_params(name: str, params: Any) -> Any:
    """Read parameters by the official schema, without leniency."""
    return codec.decode_strict(method_of(name).params, json.dumps(params).encode())


def read_result(name: str, result: Any) -> Any:
    """Read a result by the official schema, without leniency."""
    return codec.decode_strict(method_of(name).result, json.dumps(result).encode())


def params_after(name: str, params: Any, *rows: int, session: str | None = None) -> Any:
    """Repair parameters. Asserts that exactly these rows were needed and that the result is official."""
    [only] = all_params_after(name, params, *rows, session=session)
    return only


def all_params_after(name: str, params: Any, *rows: int, session: str | None = None) -> list[Any]:
    """Like `params_after`, for one message that becomes several."""
    before = copy.deepcopy(params)
    repaired = repair_params(name, params, session=session)
    assert params == before
    assert sorted(repaired.rows) == sorted(rows)
    values = [repaired.value, *repaired.more]
    for value in values:
        read_params(name, value)
    return values


def result_after(name: str, result: Any, *rows: int, asked: Any = None) -> Any:
    """Repair a result. Asserts that exactly these rows were needed and that the result is official."""
    before = copy.deepcopy(result)
    repaired = repair_result(name, result, asked)
    assert result == before
    assert sorted(repaired.rows) == sorted(rows)
    assert not repaired.more
    read_result(name, repaired.value)
    return repaired.value


def update_after(update: Any, *rows: int) -> Any:
    """Repair the update of a `session/update` of session `s`."""
    return params_after("session/update", {"sessionId": "s", "update": update}, *rows)["update"]
