"""Failures of a provider's request, converted to one line with the problem and what to do."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from accord.coder.models.credentials import Secret, provider_variable
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import ErrorKind, ModelError

_MAX_ERROR_TEXT: Final = 300


class ProviderFailure(Exception):
    """A request failed: the provider refused it, or its answer is unreadable.

    `error` is the provider's error object. `status` is None if the failure has none.
    """

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        error: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        connection: bool = False,
        final: bool = False,
        place: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error: Mapping[str, Any] = error or {}
        self.headers: Mapping[str, str] = headers or {}
        self.connection = connection
        """Whether no connection could be made, or it broke."""
        self.final = final
        """Whether a retry would fail again, whatever kind of error it is."""
        self.place = place
        """The address that was tried, without its path."""

    @property
    def words(self) -> tuple[str, ...]:
        """The code, type, status and reasons of the error, in lower case."""
        details: Any = self.error.get("details")
        values: list[Any] = [self.error.get(name) for name in ("code", "type", "status")]
        if isinstance(details, list):
            entries = cast(list[Any], details)
            values += [cast(dict[str, Any], one).get("reason") for one in entries if isinstance(one, dict)]
        return tuple(str(value).lower() for value in values if isinstance(value, str | int))

    @property
    def text(self) -> str:
        """The provider's message."""
        message = self.error.get("message")
        return message if isinstance(message, str) and message.strip() else str(self)


def failure_of_body(status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderFailure:
    """Return the failure that an HTTP error response describes."""
    text = body.decode("utf-8", "replace").strip()
    return ProviderFailure(
        "" if "<" in text[:20] else text, status=status, error=error_object(body), headers=headers
    )


def failure_of_event(error: object) -> ProviderFailure:
    """Return the failure that an event in a stream describes."""
    members = cast(dict[str, Any], error) if isinstance(error, dict) else {"message": str(error)}
    return ProviderFailure(error=members)


def error_object(body: bytes) -> dict[str, Any]:
    """Return the error object of a response body; empty if it has none."""
    import msgspec

    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    if isinstance(value, list) and value:
        value = cast(list[Any], value)[0]  # Gemini, for some errors
    if not isinstance(value, dict):
        return {}
    members = cast(dict[str, Any], value)
    inner = members.get("error", members)
    if isinstance(inner, dict):
        return cast(dict[str, Any], inner)
    return {"message": inner} if isinstance(inner, str) else {}


_STATUS_BY_WORD: Final[dict[str, int]] = {
    "invalid_request_error": 400, "invalid_argument": 400, "failed_precondition": 400,
    "authentication_error": 401, "unauthenticated": 401, "invalid_api_key": 401, "api_key_invalid": 401,
    "permission_error": 403, "permission_denied": 403,
    "model_not_found": 404, "not_found_error": 404, "not_found": 404,
    "request_too_large": 413,
    "rate_limit_exceeded": 429, "rate_limit_error": 429, "too_many_requests": 429, "resource_exhausted": 429,
    "server_error": 500, "api_error": 500, "internal": 500, "internal_server_error": 500,
    "service_unavailable": 503, "service_unavailable_error": 503, "unavailable": 503,
    "server_is_overloaded": 503, "overloaded": 503, "timeout_error": 504, "deadline_exceeded": 504,
    "overloaded_error": 529,
}  # fmt: skip
"""The status of an error that is reported inside a stream, by its code, type or status."""

_QUOTA_WORDS: Final = frozenset((
    "insufficient_quota", "billing_error", "billing_hard_limit_reached", "credit_balance_exhausted",
    "organization_spend_limit_exceeded", "project_spend_limit_exceeded", "organization_usage_limit_exceeded",
))  # fmt: skip
_CONTEXT_WORDS: Final = frozenset(("context_length_exceeded", "request_too_large"))
_KEY_WORDS: Final = frozenset(("invalid_api_key", "api_key_invalid"))
_CONTEXT_FULL_TEXT: Final = re.compile(
    r"context (?:length|size|window)|prompt is too long|too many (?:input )?tokens|input token count"
    r"|number of tokens allowed|reduce the length of the messages",
    re.IGNORECASE,
)
_KEY_TEXT: Final = re.compile(
    r"api[ _-]?key|credential|unregistered caller|unauthenticated|(?:access|auth\w*) token", re.IGNORECASE
)
"""A 403 that is about the key. Others are about the model, the region or the account."""
_NO_CREDIT_TEXT: Final = re.compile(r"credit balance is too low", re.IGNORECASE)

_CONTEXT_FULL: Final = (
    "the session does not fit into the model's context; compact the session or begin a new one"
)


def is_content_filter(failure: ProviderFailure) -> bool:
    """Whether the provider's content filter refused the prompt."""
    return "content_filter" in failure.words


def to_model_error(failure: ProviderFailure, endpoint: Endpoint, model: str) -> ModelError:
    """Convert a failure to a ModelError with one line: provider, model, what happened, what to do.

    Do not chain the original error: it may hold the request, its headers and the key.
    """
    status = _status(failure)
    kind, problem_and_advice, final = _classify(failure, status, endpoint)
    problem, _, advice = problem_and_advice.partition("; ")
    line = f"{endpoint.name}:{model}: {problem}" if model else f"{endpoint.name}: {problem}"
    if status is not None:
        line += f" ({status})"
    if details := one_line(failure.text, endpoint.key):
        line += f": {details}"
    if advice:
        line += f"; {advice}"
    retry_after = _retry_after(failure.headers)
    if retry_after:
        line += f"; the provider asks to wait {retry_after:.0f} s"
    final |= failure.final or failure.headers.get("x-should-retry", "").strip().lower() == "false"
    return ModelError(kind, line, retry_after=retry_after, status=status, final=final)


def one_line(text: str, key: Secret | None) -> str:
    """Return the text on one line, shortened, with the key masked."""
    text = " ".join(text.split())
    if key is not None:
        text = key.redact(text)
    return text if len(text) <= _MAX_ERROR_TEXT else f"{text[: _MAX_ERROR_TEXT - 1]}…"


def _status(failure: ProviderFailure) -> int | None:
    """Return the status of the response, or the one that the same error would have outside of a stream."""
    if failure.status is not None:
        return failure.status
    for word in failure.words:
        if word in _STATUS_BY_WORD:
            return _STATUS_BY_WORD[word]
        if word.isdigit() and 400 <= int(word) < 600:
            return int(word)
    return 429 if _QUOTA_WORDS.intersection(failure.words) else None


def _classify(
    failure: ProviderFailure, status: int | None, endpoint: Endpoint
) -> tuple[ErrorKind, str, bool]:
    """Return the kind of error, the problem with its advice behind a semicolon, and whether it is final."""
    words = set(failure.words)
    family = endpoint.family
    key = provider_variable(family, "API_KEY")
    bad_request = status in (400, 422)
    if failure.connection:
        place = endpoint.base_url or failure.place
        problem = f"the connection{' at ' if place else ''}{place} failed; check the network and the address"
        return "network", problem, False
    if words & _QUOTA_WORDS or status == 402 or (bad_request and _NO_CREDIT_TEXT.search(failure.text)):
        problem = "the quota or credit of the account is used up; see the provider's billing page"
        return "rate", problem, True
    if words & _CONTEXT_WORDS or status == 413 or (bad_request and _CONTEXT_FULL_TEXT.search(failure.text)):
        return "context_full", _CONTEXT_FULL, True
    if status == 403 and isinstance(failure.error.get("metadata"), dict):
        return "bad_request", "the request was refused", True  # flagged input at OpenRouter
    if status == 401 or words & _KEY_WORDS or (status == 403 and _KEY_TEXT.search(failure.text)):
        problem = f"the key was refused; check {key} or run `accord agent --login {family}`"
        return "auth", problem, True
    if status == 403:
        return "bad_request", "access was denied; check what the account may use, and from where", True
    if status == 404 or "model_not_found" in words:
        return "bad_request", "there is no such model; choose another one", True
    if status == 429:
        return "rate", "too many requests; try again later", False
    if status in (408, 409, 425):
        return "network", "the provider asks to try again", False
    if status is not None and status >= 500:
        return "overloaded", "the provider is overloaded or failing; try again later", False
    if status is not None:
        return "bad_request", "the request was refused", True
    return "network", "the answer broke off or was unreadable", False


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the provider asks to wait."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) / unit
        except ValueError:
            continue
        if seconds >= 0:  # not NaN
            return seconds
    return _seconds_until(headers.get("retry-after", ""))


def _seconds_until(date: str) -> float | None:
    if not date.strip():
        return None
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
