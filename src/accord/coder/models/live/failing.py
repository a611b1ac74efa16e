"""What the provider libraries raise, as a ModelError of one line: who, which model, what happened, what to do.

The libraries' own errors are not chained: they hold requests, with headers, with keys.
"""

import re
from typing import Any, Final, cast

from pydantic_ai import exceptions as theirs

from accord.coder.models.credentials import Secret, variable
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import ErrorKind, ModelError

_LONGEST: Final = 300
_TOO_LONG: Final = re.compile(
    r"context (?:length|size|window)|prompt is too long|too many (?:input )?tokens|maximum number of tokens",
    re.IGNORECASE,
)


def error_of(error: Exception, endpoint: Endpoint, model: str) -> ModelError:
    """The ModelError for anything that came out of a request."""
    if isinstance(error, ModelError):
        return error
    if not isinstance(error, theirs.ModelAPIError | theirs.UserError | theirs.UnexpectedModelBehavior):
        return ModelError(
            "other", f"{endpoint.name}:{model}: the provider library failed ({type(error).__name__})"
        )
    kind, what = _judge(error, endpoint)
    said = one_line(_said(error), endpoint.key)
    status = f" ({error.status_code})" if isinstance(error, theirs.ModelHTTPError) else ""
    if kind == "bad_request" and _TOO_LONG.search(said):
        kind, what = "context_full", _FULL
    problem, _, advice = what.partition("; ")
    line = f"{endpoint.name}:{model}: {problem}{status}{f': {said}' if said else ''}{f'; {advice}' if advice else ''}"
    return ModelError(
        kind,
        line,
        retry_after=error.retry_after if isinstance(error, theirs.ModelAPIError) else None,
        final=isinstance(error, theirs.ModelQuotaExceededError)
        or (isinstance(error, theirs.ModelHTTPError) and error.provider_retry_hint is False),
    )


def one_line(text: str, key: Secret | None) -> str:
    """The text on one line, not too long, without the key."""
    text = " ".join(text.split())
    if key is not None:
        text = key.hide_in(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_FULL: Final = (
    "the conversation does not fit into the model's context; compact the session or begin a new one"
)


def _judge(error: Exception, endpoint: Endpoint) -> tuple[ErrorKind, str]:
    family = endpoint.family
    name = variable(family, "API_KEY")
    match error:
        case theirs.ModelContextWindowExceededError():
            return "context_full", _FULL
        case theirs.ModelAuthenticationError():
            return "auth", f"the key was refused; check {name} or run `accord agent --login {family}`"
        case theirs.ModelNotFoundError():
            return "bad_request", "there is no such model; choose another one"
        case theirs.ModelQuotaExceededError():
            return "rate", "the quota or credit of the account is used up; see the provider's billing page"
        case theirs.ModelRateLimitError():
            return "rate", "too many requests; try again later"
        case theirs.ModelUnavailableError() | theirs.ModelServerError():
            return "overloaded", "the provider is overloaded or failing; try again later"
        case theirs.ModelConnectionError():
            place = f" at {endpoint.base_url}" if endpoint.base_url else ""
            return "network", f"the connection{place} failed; check the network and the address"
        case theirs.ModelHTTPError(status_code=413):
            return "context_full", _FULL
        case theirs.ModelHTTPError(status_code=408 | 409 | 425):
            return "network", "the provider asks to try again"
        case theirs.ModelHTTPError() | theirs.ModelRequestRejectedError() | theirs.UserError():
            return "bad_request", "the request was refused"
        case theirs.ModelAPIError():
            return "network", "the answer broke off or was unreadable"
        case _:
            return "network", "the answer was empty or made no sense"


def _said(error: Exception) -> str:
    """What the provider said about it, or the library."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        said = cast(dict[str, Any], body)
        inner = said.get("error", said)
        message: Any = cast(dict[str, Any], inner).get("message") if isinstance(inner, dict) else inner
        if isinstance(message, str) and message.strip():
            return message
    if isinstance(error, theirs.ModelHTTPError):
        return body if isinstance(body, str) and "<" not in body[:20] else ""
    return str(getattr(error, "message", ""))
