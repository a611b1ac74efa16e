"""How the dialect tests look at a repair: which rows it took, that the input stayed as it was, that it now is official."""

import copy
import json
from typing import Any

from accord.schema import codec
from accord.schema.dialects import METHOD_ALIASES, repair_params, repair_result
from accord.schema.methods import METHODS, Method


def method_of(name: str) -> Method:
    """The method that serves this name, official or not; requests before notifications of the same name."""
    official = METHOD_ALIASES.get(name, name)
    return max((m for m in METHODS if m.name == official), key=lambda m: m.kind == "request")


def read_params(name: str, params: Any) -> Any:
    """The official reading of parameters, without any leniency."""
    return codec.exact(method_of(name).params, json.dumps(params).encode())


def read_result(name: str, result: Any) -> Any:
    """The official reading of a result, without any leniency."""
    return codec.exact(method_of(name).result, json.dumps(result).encode())


def params_after(name: str, params: Any, *rows: int, session: str | None = None) -> Any:
    """The repaired parameters; exactly these rows were needed, and the official reading takes what they gave."""
    [only] = all_params_after(name, params, *rows, session=session)
    return only


def all_params_after(name: str, params: Any, *rows: int, session: str | None = None) -> list[Any]:
    """The same where one message becomes several."""
    before = copy.deepcopy(params)
    repaired = repair_params(name, params, session=session)
    assert params == before
    assert sorted(repaired.rows) == sorted(rows)
    values = [repaired.value, *repaired.more]
    for value in values:
        read_params(name, value)
    return values


def result_after(name: str, result: Any, *rows: int, asked: Any = None) -> Any:
    """The repaired result; exactly these rows were needed, and the official reading takes what they gave."""
    before = copy.deepcopy(result)
    repaired = repair_result(name, result, asked)
    assert result == before
    assert sorted(repaired.rows) == sorted(rows)
    assert not repaired.more
    read_result(name, repaired.value)
    return repaired.value


def update_after(update: Any, *rows: int) -> Any:
    """The repaired update of a `session/update` of session `s`."""
    return params_after("session/update", {"sessionId": "s", "update": update}, *rows)["update"]
