"""Elicitation: forms and web addresses that the agent shows to the user.

The values of a form are checked against its schema before they are sent. A web address is only shown: this
module never opens or fetches one.
"""

import asyncio
import inspect
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import InvalidParams, RequestCancelled
from accord.schema import (
    UNSET,
    BooleanPropertySchema,
    CompleteElicitationNotification,
    ElicitationAcceptAction,
    ElicitationCancelAction,
    ElicitationDeclineAction,
    ElicitationFormMode,
    ElicitationSchema,
    ElicitationUrlMode,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
    Unknown,
)

if TYPE_CHECKING:
    from accord.client.agent_handle import AgentHandle
    from accord.client.client_session import ClientSession
    from accord.client.turn_requests import TurnRequests


class DeclinedElicitation:
    """The user declined. Closing the form without an answer is None instead."""

    def __repr__(self) -> str:
        return "DECLINED"


DECLINED: Final[DeclinedElicitation] = DeclinedElicitation()
"""The answer of a `forms` handler if the user declined the form."""

FormValues: TypeAlias = Mapping[str, str | int | float | bool | list[str]]
FormAnswer: TypeAlias = FormValues | DeclinedElicitation | None
"""The values, DECLINED, or None if the user closed the form."""


@dataclass(frozen=True, slots=True)
class ElicitationForm:
    """A form to show. The user can edit the values, decline, or close the form."""

    agent: str
    """The name of the agent; show it."""
    message: str
    schema: ElicitationSchema
    session: "ClientSession | None"
    params: ElicitationFormMode
    clock: Clock = field(default=SYSTEM_CLOCK, repr=False)

    @property
    def fields(self) -> dict[str, Any]:
        """The schema of each field by name, in order. Do not show a field whose schema is `Unknown`."""
        return self.schema.properties or {}

    @property
    def required(self) -> list[str]:
        """The names of the required fields."""
        return self.schema.required or []

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values of the fields that have one."""
        defaults = {
            name: schema.default for name, schema in self.fields.items() if not isinstance(schema, Unknown)
        }
        return {name: value for name, value in defaults.items() if value is not UNSET and value is not None}

    async def problems(self, values: FormValues) -> dict[str, str]:
        """The problem of each field with an invalid value; empty if the values can be sent."""
        problems = {name: "is required" for name in self.required if name not in values}
        patterns: list[tuple[str, str, str]] = []
        for name, value in values.items():
            schema = self.fields.get(name)
            problem = _problem(schema, value)
            if problem:
                problems[name] = problem
            elif isinstance(schema, StringPropertySchema) and schema.pattern and isinstance(value, str):
                patterns.append((name, schema.pattern, value))
        if patterns:
            results = await matches([(pattern, value) for _, pattern, value in patterns], clock=self.clock)
            for (name, pattern, _), matched in zip(patterns, results, strict=True):
                if matched is False:
                    problems[name] = f"does not match {pattern}"
        return problems


@dataclass(frozen=True, slots=True)
class ElicitationUrl:
    """A web address to show in full, with its host. Open it only if the user agrees."""

    agent: str
    """The name of the agent; show it."""
    message: str
    url: str
    host: str
    session: "ClientSession | None"
    params: ElicitationUrlMode
    completed: "asyncio.Future[None]" = field(repr=False, compare=False)
    """Done once the agent reports the end of the external flow. It may never do so: let the user give up."""

    @property
    def punycode(self) -> bool:
        """Whether the host contains non-ASCII characters and can look like another one; warn the user."""
        return any(part.startswith("xn--") for part in self.host.split(".")) or not self.host.isascii()


FormHandler: TypeAlias = Callable[[ElicitationForm], Awaitable[FormAnswer] | FormAnswer]
UrlHandler: TypeAlias = Callable[[ElicitationUrl], Awaitable[bool | None] | bool | None]
"""Returns whether the user agreed to open the address; None if the user gave no answer."""


ElicitationAction: TypeAlias = ElicitationAcceptAction | ElicitationDeclineAction | ElicitationCancelAction


class ElicitationRequests:
    """Passes the elicitations of one agent to the client's handlers. A handler that fails cancels."""

    def __init__(self, handle: "AgentHandle") -> None:
        self._handle = handle
        self._open_urls: dict[str, asyncio.Future[None]] = {}

    async def create(
        self,
        session: "ClientSession | None",
        params: ElicitationFormMode | ElicitationUrlMode | Unknown,
        turn_requests: "TurnRequests | None",
    ) -> ElicitationAction:
        """Serve `elicitation/create`. A mode that the client did not advertise is refused.

        If the turn that it belongs to is stopped, the handler is canceled and the answer is `cancel`.
        """
        handlers = self._handle.handlers
        if isinstance(params, ElicitationFormMode) and handlers.forms is not None:
            show = partial(self._form, session, params)
        elif isinstance(params, ElicitationUrlMode) and handlers.urls is not None:
            show = partial(self._url, session, params)
        else:
            mode = params.kind if isinstance(params, Unknown) else params.__struct_config__.tag
            raise InvalidParams(f"This client does not offer elicitation by {mode}", {"mode": mode})
        if turn_requests is None:
            return await show()
        try:
            return await turn_requests.admit().run(show)
        except RequestCancelled:
            return ElicitationCancelAction()

    def complete(self, params: CompleteElicitationNotification) -> None:
        """Handle `elicitation/complete`; an unknown id is ignored."""
        future = self._open_urls.pop(params.elicitation_id, None)
        if future is not None and not future.done():
            future.set_result(None)

    def cancel_all(self) -> None:
        """Cancel the open addresses, because the agent has ended."""
        open_urls, self._open_urls = self._open_urls, {}
        for future in open_urls.values():
            future.cancel()

    async def _form(self, session: "ClientSession | None", params: ElicitationFormMode) -> ElicitationAction:
        handle = self._handle
        form = ElicitationForm(
            handle.name, params.message, params.requested_schema, session, params, handle.options.clock
        )
        values = await self._call_handler(handle.handlers.forms, form)
        if isinstance(values, DeclinedElicitation):
            return ElicitationDeclineAction()
        if values is None:
            return ElicitationCancelAction()
        problems = await form.problems(values)
        if problems:
            details = "; ".join(f"{name} {problem}" for name, problem in problems.items())
            handle.report(f"the form handler returned values that cannot be sent: {details}")
            return ElicitationCancelAction()
        return ElicitationAcceptAction(dict(values))

    async def _url(self, session: "ClientSession | None", params: ElicitationUrlMode) -> ElicitationAction:
        host = _host_of(params.url)
        completed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if params.elicitation_id in self._open_urls:
            raise InvalidParams("This elicitation id is in use", {"elicitationId": params.elicitation_id})
        self._open_urls[params.elicitation_id] = completed
        accepted: bool | None = None
        try:
            elicitation = ElicitationUrl(
                self._handle.name, params.message, params.url, host, session, params, completed
            )
            accepted = await self._call_handler(self._handle.handlers.urls, elicitation)
        finally:
            if accepted is not True:
                self._open_urls.pop(params.elicitation_id, None)
        if accepted is True:
            return ElicitationAcceptAction()
        return ElicitationDeclineAction() if accepted is False else ElicitationCancelAction()

    async def _call_handler(self, handler: Any, elicitation: ElicitationForm | ElicitationUrl) -> Any:
        try:
            answer = handler(elicitation)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handler
            self._handle.report_failure("the elicitation handler", error)
            return None


def _host_of(url: str) -> str:
    """The host of a web address. Raises InvalidParams for anything else."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = parts = None
    if parts is None or not host or parts.scheme not in ("http", "https"):
        raise InvalidParams("The address to open is not a web address", {"url": url[:300]})
    return host


# -- values of a form ----------------------------------------------------------------------------------------

_MAX_PATTERN: Final = 1000
_MAX_TEXT: Final = 100_000
_PATTERN_SECONDS: Final = 1.0

_PROGRAM: Final = """
import json, re, sys
for pattern, text in json.load(sys.stdin):
    try:
        matched = re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        matched = None
    print(json.dumps(matched), flush=True)
"""


async def matches(
    pairs: Sequence[tuple[str, str]], *, seconds: float = _PATTERN_SECONDS, clock: Clock = SYSTEM_CLOCK
) -> list[bool | None]:
    """For each pair, whether the pattern occurs in the text; None if that could not be found out in time.

    The patterns come from the agent. Python's `re` can take forever on a hostile pattern and blocks the event
    loop meanwhile, so it runs in a separate process, which is killed when its time is over.
    """
    results: list[bool | None] = [None] * len(pairs)
    indexes = [
        index
        for index, (pattern, text) in enumerate(pairs)
        if len(pattern) <= _MAX_PATTERN and len(text) <= _MAX_TEXT
    ]
    if not indexes:
        return results
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", _PROGRAM,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip

    def kill() -> None:
        if process.returncode is None:
            process.kill()

    timer = clock.call_later(seconds, kill)
    try:
        output, _ = await process.communicate(json.dumps([pairs[index] for index in indexes]).encode())
    finally:
        timer.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    # Results from before the kill count: one hostile pattern does not exempt the other fields.
    for index, line in zip(indexes, output.decode().splitlines(), strict=False):
        results[index] = json.loads(line)
    return results


def _problem(schema: Any, value: Any) -> str:
    """The problem of one value, without its pattern; "" if there is none."""
    match schema:
        case None:
            return "is not a field of this form"
        case StringPropertySchema():
            return _text_problem(schema, value) if isinstance(value, str) else "must be text"
        case BooleanPropertySchema():
            return "" if isinstance(value, bool) else "must be true or false"
        case IntegerPropertySchema() | NumberPropertySchema():
            return _number_problem(schema, value)
        case MultiSelectPropertySchema():
            return _selection_problem(schema, value)
        case _:
            return "has a type that this client does not support"


def _text_problem(schema: StringPropertySchema, value: str) -> str:
    choices = schema.enum or [option.const for option in schema.one_of or ()]
    if choices and value not in choices:
        return "is not one of the choices"
    if schema.min_length and len(value) < schema.min_length:
        return f"must have at least {schema.min_length} characters"
    if isinstance(schema.max_length, int) and len(value) > schema.max_length:
        return f"must have at most {schema.max_length} characters"
    check = _FORMATS.get(schema.format) if schema.format else None
    return f"is not a valid {schema.format}" if check is not None and not check(value) else ""


def _number_problem(schema: IntegerPropertySchema | NumberPropertySchema, value: Any) -> str:
    is_integer = isinstance(schema, IntegerPropertySchema)
    if (
        isinstance(value, bool)
        or not isinstance(value, int if is_integer else int | float)
        or not isfinite(value)
    ):
        return "must be a whole number" if is_integer else "must be a number"
    if isinstance(schema.minimum, int | float) and value < schema.minimum:
        return f"must be at least {schema.minimum}"
    if isinstance(schema.maximum, int | float) and value > schema.maximum:
        return f"must be at most {schema.maximum}"
    return ""


def _selection_problem(schema: MultiSelectPropertySchema, value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast(list[Any], value)):
        return "must be a list of choices"
    selected = cast(list[str], value)
    match schema.items:
        case StringMultiSelectItems():
            choices = schema.items.enum
        case TitledMultiSelectItems():
            choices = [option.const for option in schema.items.any_of]
        case _:
            return "has choices of a type that this client does not support"
    if any(item not in choices for item in selected):
        return "contains a value that is not one of the choices"
    if schema.min_items and len(selected) < schema.min_items:
        return f"needs at least {schema.min_items} choices"
    if isinstance(schema.max_items, int) and len(selected) > schema.max_items:
        return f"takes at most {schema.max_items} choices"
    return ""


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _is_date_time(text: str) -> bool:
    try:
        return "T" in text.upper() and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_uri(text: str) -> bool:
    try:
        return bool(urlsplit(text).scheme) and " " not in text
    except ValueError:
        return False


def _is_email(text: str) -> bool:
    return len(text) <= 320 and re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None


_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "email": _is_email,
    "uri": _is_uri,
    "date": _is_date,
    "date-time": _is_date_time,
}
