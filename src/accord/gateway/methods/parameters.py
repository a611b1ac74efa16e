"""Reads the parameters of the gateway's own methods. Everything raises InvalidParams."""

from typing import TYPE_CHECKING, Any, cast

from accord.errors import InvalidParams
from accord.gateway.upstream import read_untyped

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall


def read_params(call: "ClientCall") -> dict[str, Any]:
    """The parameters of a call as an object; empty without any."""
    value: Any = {} if call.params is None else read_untyped(call.params).value
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidParams("Invalid params: must be an object")
    return cast("dict[str, Any]", value)


def text_param(params: dict[str, Any], name: str, default: str | None = None) -> str:
    """A member that is a string; required without a default."""
    value = params.get(name, default)
    if not isinstance(value, str) or "\0" in value:
        raise InvalidParams(f"Invalid params: `{name}` must be a string")
    return value


def bool_param(params: dict[str, Any], name: str, default: bool) -> bool:
    """A member that is true or false."""
    value = params.get(name, default)
    if not isinstance(value, bool):
        raise InvalidParams(f"Invalid params: `{name}` must be true or false")
    return value


def list_param(params: dict[str, Any], name: str, limit: int) -> list[Any]:
    """A required member that is a list of limited length."""
    value = params.get(name)
    if not isinstance(value, list) or len(cast("list[Any]", value)) > limit:
        raise InvalidParams(f"Invalid params: `{name}` must be a list of at most {limit}")
    return cast("list[Any]", value)


def without_none(**members: Any) -> dict[str, Any]:
    """The members that have a value, for an answer."""
    return {name: value for name, value in members.items() if value is not None}
