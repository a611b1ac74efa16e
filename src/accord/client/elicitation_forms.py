"""Forms and URLs that the agent shows the user; validated answers."""

import asyncio
import inspect
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import InvalidParams
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


# MERGED client.patterns: Patterns that an agent wrote, evaluated in bounded time.
#
# Python's `re` can take for ever on a hostile pattern and lets nothing else run meanwhile, so it runs in a process of its
# own, which is killed when its time is over. What could not be judged in time counts as not judged.

LONGEST_PATTERN: Final = 1000
LONGEST_TEXT: Final = 100_000
SECONDS: Final = 1.0

_PROGRAM: Final = """
import json, re, sys
for pattern, text in json.load(sys.stdin):
    try:
        verdict = re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        verdict = None
    print(json.dumps(verdict), flush=True)
"""


async def matches(
    pairs: Sequence[tuple[str, str]], *, seconds: float = SECONDS, clock: Clock = SYSTEM_CLOCK
) -> list[bool | None]:
    """For each pattern and text, whether the pattern occurs in the text; None for what cannot be judged."""
    verdicts: list[bool | None] = [None] * len(pairs)
    judged = [
        place
        for place, (pattern, text) in enumerate(pairs)
        if len(pattern) <= LONGEST_PATTERN and len(text) <= LONGEST_TEXT
    ]
    if not judged:
        return verdicts
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", _PROGRAM,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip

    def overdue() -> None:
        if process.returncode is None:
            process.kill()

    timer = clock.call_later(seconds, overdue)
    try:
        said, _ = await process.communicate(json.dumps([pairs[place] for place in judged]).encode())
    finally:
        timer.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    # What came out before a kill counts: one hostile field does not spare the others.
    for place, line in zip(judged, said.decode().splitlines(), strict=False):
        verdicts[place] = json.loads(line)
    return verdicts


# MERGED client.elicitation: Elicitation: the agent asks the user something, by a form or by a web address.
#
# A form's values are checked against its schema before they are sent. An address is only shown: nothing here ever opens or
# fetches one.


class DeclinedElicitation:
    """The user said no, which is not the same as going away without an answer."""

    def __repr__(self) -> str:
        return "DECLINED"


DECLINED: Final = DeclinedElicitation()

FormValues: TypeAlias = Mapping[str, str | int | float | bool | list[str]]
FormAnswer: TypeAlias = FormValues | DeclinedElicitation | None
"""The values, DECLINED, or None: the user went away."""


@dataclass(frozen=True, slots=True)
class ElicitationForm:
    """A form to show: let the user review and edit the values, refuse, or go away."""

    agent: str
    """Who asks; show it."""
    message: str
    schema: ElicitationSchema
    session: "ClientSession | None"
    sent: ElicitationFormMode
    clock: Clock = field(default=SYSTEM_CLOCK, repr=False)

    @property
    def fields(self) -> dict[str, Any]:
        """The schema of each field by its name, in order. One of a type nobody knows is `Unknown`: do not show it."""
        return self.schema.properties or {}

    @property
    def required(self) -> list[str]:
        """The names of the fields that must be filled in."""
        return self.schema.required or []

    @property
    def defaults(self) -> dict[str, Any]:
        """The values to begin with, for the fields that have one."""
        found = {
            name: schema.default for name, schema in self.fields.items() if not isinstance(schema, Unknown)
        }
        return {name: value for name, value in found.items() if value is not UNSET and value is not None}

    async def problems(self, values: FormValues) -> dict[str, str]:
        """What is wrong with these values, by field; empty when they can be sent."""
        found = {name: "is required" for name in self.required if name not in values}
        patterns: list[tuple[str, str, str]] = []
        for name, value in values.items():
            schema = self.fields.get(name)
            problem = _problem(schema, value)
            if problem:
                found[name] = problem
            elif isinstance(schema, StringPropertySchema) and schema.pattern and isinstance(value, str):
                patterns.append((name, schema.pattern, value))
        if patterns:
            verdicts = await matches([(pattern, value) for _, pattern, value in patterns], clock=self.clock)
            for (name, pattern, _), verdict in zip(patterns, verdicts, strict=True):
                if verdict is False:
                    found[name] = f"does not match {pattern}"
        return found


@dataclass(frozen=True, slots=True)
class ElicitationUrl:
    """A web address to show in full, its host made plain, and to open only if the user agrees."""

    agent: str
    """Who asks; show it."""
    message: str
    url: str
    host: str
    session: "ClientSession | None"
    sent: ElicitationUrlMode
    completed: "asyncio.Future[None]" = field(repr=False, compare=False)
    """Done once the agent says that what happens outside is done. It may never say so: offer a way out."""

    @property
    def punycode(self) -> bool:
        """Whether the host is written in another script than it may look like: warn."""
        return any(part.startswith("xn--") for part in self.host.split(".")) or not self.host.isascii()


FormHandler: TypeAlias = Callable[[ElicitationForm], Awaitable[FormAnswer] | FormAnswer]
UrlHandler: TypeAlias = Callable[[ElicitationUrl], Awaitable[bool | None] | bool | None]
"""Whether the user agreed to open the address; None: went away."""


def host_of(url: str) -> str:
    """The host of a web address; anything that is not one is refused."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = parts = None
    if parts is None or not host or parts.scheme not in ("http", "https"):
        raise InvalidParams("The address to open is not a web address", {"url": url[:300]})
    return host


def _problem(schema: Any, value: Any) -> str:
    """What is wrong with one value, patterns aside; "" for nothing."""
    match schema:
        case None:
            return "is no field of this form"
        case StringPropertySchema():
            return _text_problem(schema, value) if isinstance(value, str) else "must be text"
        case BooleanPropertySchema():
            return "" if isinstance(value, bool) else "must be true or false"
        case IntegerPropertySchema() | NumberPropertySchema():
            return _number_problem(schema, value)
        case MultiSelectPropertySchema():
            return _selection_problem(schema, value)
        case _:
            return "is of a type that this client does not know"


def _text_problem(schema: StringPropertySchema, value: str) -> str:
    listed = schema.enum or [option.const for option in schema.one_of or ()]
    if listed and value not in listed:
        return "is not one of the choices"
    if schema.min_length and len(value) < schema.min_length:
        return f"must have at least {schema.min_length} characters"
    if isinstance(schema.max_length, int) and len(value) > schema.max_length:
        return f"must have at most {schema.max_length} characters"
    check = _FORMATS.get(schema.format) if schema.format else None
    return f"is no valid {schema.format}" if check is not None and not check(value) else ""


def _number_problem(schema: IntegerPropertySchema | NumberPropertySchema, value: Any) -> str:
    whole = isinstance(schema, IntegerPropertySchema)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not isfinite(value):
        return "must be a whole number" if whole else "must be a number"
    if isinstance(schema.minimum, int | float) and value < schema.minimum:
        return f"must be at least {schema.minimum}"
    if isinstance(schema.maximum, int | float) and value > schema.maximum:
        return f"must be at most {schema.maximum}"
    return ""


def _selection_problem(schema: MultiSelectPropertySchema, value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast(list[Any], value)):
        return "must be a list of choices"
    chosen = cast(list[str], value)
    match schema.items:
        case StringMultiSelectItems():
            listed = schema.items.enum
        case TitledMultiSelectItems():
            listed = [option.const for option in schema.items.any_of]
        case _:
            return "has choices of a type that this client does not know"
    if any(item not in listed for item in chosen):
        return "has something that is not one of the choices"
    if schema.min_items and len(chosen) < schema.min_items:
        return f"needs at least {schema.min_items} choices"
    if isinstance(schema.max_items, int) and len(chosen) > schema.max_items:
        return f"takes at most {schema.max_items} choices"
    return ""


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _is_moment(text: str) -> bool:
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
    "date-time": _is_moment,
}


# MERGED client.elicitations: The elicitations of one agent: forms and addresses put before the user, and the addresses that are still out there.

Action = ElicitationAcceptAction | ElicitationDeclineAction | ElicitationCancelAction


class ElicitationRequests:
    """Asks the client's handlers. Whatever goes wrong with that is no acceptance."""

    def __init__(self, life: "AgentHandle") -> None:
        self._life = life
        self._outside: dict[str, asyncio.Future[None]] = {}

    async def create(
        self, session: "ClientSession | None", asked: ElicitationFormMode | ElicitationUrlMode | Unknown
    ) -> Action:
        """`elicitation/create`. A mode that was not advertised, or that nobody knows, is refused."""
        handlers = self._life.handlers
        if isinstance(asked, ElicitationFormMode) and handlers.forms is not None:
            return await self._form(session, asked)
        if isinstance(asked, ElicitationUrlMode) and handlers.urls is not None:
            return await self._address(session, asked)
        mode = asked.kind if isinstance(asked, Unknown) else asked.__struct_config__.tag
        raise InvalidParams(f"This client does not offer elicitation by {mode}", {"mode": mode})

    def complete(self, told: CompleteElicitationNotification) -> None:
        """`elicitation/complete`. Unknown ids, and those that are complete already, are nobody's business."""
        future = self._outside.pop(told.elicitation_id, None)
        if future is not None and not future.done():
            future.set_result(None)

    def forget(self) -> None:
        """The agent is gone: nothing outside will be reported as done any more."""
        outside, self._outside = self._outside, {}
        for future in outside.values():
            future.cancel()

    async def _form(self, session: "ClientSession | None", asked: ElicitationFormMode) -> Action:
        life = self._life
        form = ElicitationForm(
            life.name, asked.message, asked.requested_schema, session, asked, life.options.clock
        )
        values = await self._answer_of(life.handlers.forms, form)
        if isinstance(values, DeclinedElicitation):
            return ElicitationDeclineAction()
        if values is None:
            return ElicitationCancelAction()
        problems = await form.problems(values)
        if problems:
            found = "; ".join(f"{name} {problem}" for name, problem in problems.items())
            life.report(f"the form handler gave values that cannot be sent: {found}")
            return ElicitationCancelAction()
        return ElicitationAcceptAction(dict(values))

    async def _address(self, session: "ClientSession | None", asked: ElicitationUrlMode) -> Action:
        host = host_of(asked.url)
        completed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if asked.elicitation_id in self._outside:
            raise InvalidParams("This elicitation id is in use", {"elicitationId": asked.elicitation_id})
        self._outside[asked.elicitation_id] = completed
        agreed: bool | None = None
        try:
            address = ElicitationUrl(
                self._life.name, asked.message, asked.url, host, session, asked, completed
            )
            agreed = await self._answer_of(self._life.handlers.urls, address)
        finally:
            if agreed is not True:
                self._outside.pop(asked.elicitation_id, None)
        if agreed is True:
            return ElicitationAcceptAction()
        return ElicitationDeclineAction() if agreed is False else ElicitationCancelAction()

    async def _answer_of(self, handler: Any, question: ElicitationForm | ElicitationUrl) -> Any:
        try:
            answer = handler(question)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handler
            self._life.report(f"the elicitation handler raised {type(error).__name__}: {error}")
            return None
