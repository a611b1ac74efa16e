"""The arguments of a server's tool: an object, also where the model sent it as text. What fits, the server knows best."""

import json
from typing import Any, cast

import msgspec

from accord.coder.messages import too_deep
from accord.coder.tools.tool import BadArguments


def read_object(tool: str, given: Any) -> dict[str, Any]:
    """The arguments. Raises BadArguments."""
    value: Any = {} if given is None else given
    if isinstance(value, str):
        try:
            value = json.loads(value, strict=False) if value.strip() else {}
        except (ValueError, RecursionError):
            raise BadArguments(
                f"{tool} was not run: its arguments must be one complete JSON object"
            ) from None
    if not isinstance(value, dict):
        raise BadArguments(
            f"{tool} was not run: its arguments must be a JSON object, not {type(value).__name__}"
        )
    arguments = cast(dict[str, Any], value)
    if too_deep(arguments):
        raise BadArguments(f"{tool} was not run: its arguments are nested too deep")
    try:
        msgspec.json.encode(arguments)
    except (UnicodeEncodeError, TypeError, ValueError):
        raise BadArguments(
            f"{tool} was not run: there is something in its arguments that is no JSON"
        ) from None
    return arguments
