"""Questions of the model to the user: by a form where the client has them, else by Agentao's extension method.

A client that has announced neither is tried once with the extension; if it does not know it, it is left alone for as long
as it is connected. Whoever does not answer in time is not asked again in that turn. Nothing but a clear answer is one.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from accord.agent.tool_call_scope import limited
from accord.agent.turn import Turn
from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.bounded_text import capped
from accord.coder.tools.ask_user import USER_UNAVAILABLE
from accord.coder.tools.tool import ToolFailure
from accord.coder.tools.tool_context import AskUser, UserQuestion
from accord.errors import AccordError, MethodNotFound, RpcError
from accord.safe_text import one_line
from accord.schema.client_requests import ElicitationPropertySchema, ElicitationSchema, StringPropertySchema

METHOD: Final = "_agentao.cn/ask_user"
SOMETHING_ELSE: Final = "Something else"
"""Stands beside the options: a required choice that allows for words of one's own works in every client."""

LONGEST_QUESTION: Final = 8_000
LONGEST_ANSWER: Final = 20_000
MOST_OPTIONS: Final = 50

_NO_SECRETS: Final = (
    "Not asked: what users answer is shown and kept, so passwords, keys and the like are never asked for. Ask the user to "
    "put it where the program that needs it finds it, such as an environment variable, without telling you."
)


def asker(turn: Turn, *, seconds: float | None, clock: Clock = SYSTEM_CLOCK) -> AskUser:
    """What asks the user of this turn, one question at a time, each for so long at most."""
    return _Asker(turn, seconds, clock)


class _Asker:
    def __init__(self, turn: Turn, seconds: float | None, clock: Clock) -> None:
        self._turn = turn
        self._seconds = seconds
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._nobody_there = False

    async def __call__(self, question: UserQuestion) -> str | None:
        """The answer, or None. Raises ToolFailure for what must not be asked."""
        asked = UserQuestion(capped(question.text.strip(), LONGEST_QUESTION), _distinct(question.options))
        if not asked.options and asks_for_secret(asked.text):
            raise ToolFailure(_NO_SECRETS)
        async with self._one_at_a_time:
            if self._nobody_there:
                return None
            try:
                return _sound(await limited(self._ask(asked), self._seconds, self._clock))
            except TimeoutError:
                self._nobody_there = True
                return None

    async def _ask(self, question: UserQuestion) -> str | None:
        client = self._turn.client
        if client.can_show_forms:
            answer = await self._turn.elicit(question.text, _form(question))
            if answer:
                return _filled_in(answer.content, question)
            if not isinstance(answer.error, RpcError):
                return None
        return await self._by_extension(question)

    async def _by_extension(self, question: UserQuestion) -> str | None:
        client = self._turn.client
        announced = _announced(client.capabilities.meta or {}, client.info.meta or {} if client.info else {})
        if announced is False or METHOD in client.unsupported_methods:
            return None
        params: dict[str, Any] = {"sessionId": self._turn.session.id, "question": question.text}
        if question.options:
            params["options"] = list(question.options)
        try:
            return read_answer(await client.request(METHOD, params), question.options)
        except MethodNotFound:
            return None  # the client itself remembers that
        except RpcError:
            if announced is None:
                client.unsupported_methods.add(METHOD)
            return None
        except AccordError:
            return None


# -- what is asked -------------------------------------------------------------------------------------------

_ASKING: Final = r"(?:enter|provide|paste|type|give|share|send|tell|supply|need|what(?:'s| is| are)|whats)"
_SECRET: Final = (
    r"(?:pass(?:word|phrase|code)s?|(?:api|secret|private|access|ssh|signing|encryption)[ _-]?keys?"
    r"|(?:\w+[ -])?(?:access|auth|api|bearer|session|github|gitlab|npm|pypi)[ _-]tokens?"
    r"|credentials|one[- ]time (?:code|password)|otp|recovery codes?|seed phrase|(?:credit )?card number|cvv|cvc)"
)
_FOR_SECRET: Final = re.compile(
    rf"\b{_ASKING}\b[^.?!\n]{{0,60}}\b{_SECRET}\b(?=\s*(?:[.?!,;:)]|$|for\b|to\b|of\b|so\b))", re.I
)


def asks_for_secret(text: str) -> bool:
    """Whether the user is asked to tell what nobody should type into a form."""
    return _FOR_SECRET.search(text) is not None


def _distinct(options: Sequence[str]) -> tuple[str, ...]:
    cleaned = (one_line(option) for option in options)
    return tuple(dict.fromkeys(option for option in cleaned if option))[:MOST_OPTIONS]


def _form(question: UserQuestion) -> ElicitationSchema:
    if not question.options:
        fields: dict[str, ElicitationPropertySchema] = {
            "answer": StringPropertySchema(title="Answer", min_length=1)
        }
        return ElicitationSchema("object", fields, ["answer"])
    choices = list(dict.fromkeys((*question.options, SOMETHING_ELSE)))
    fields = {
        "choice": StringPropertySchema(title="Choice", enum=choices),
        "words": StringPropertySchema(
            title="In your own words", description=f"For “{SOMETHING_ELSE}”, or to add something."
        ),
    }
    return ElicitationSchema("object", fields, ["choice"])


# -- what is answered ----------------------------------------------------------------------------------------


def _filled_in(content: Mapping[str, Any], question: UserQuestion) -> str | None:
    if not question.options:
        return _text(content.get("answer"))
    choice, words = _text(content.get("choice")), _text(content.get("words"))
    if choice is None or words is None:
        return choice or words
    return words if choice == SOMETHING_ELSE else f"{choice}\n{words}"


def read_answer(answer: Any, options: Sequence[str] = ()) -> str | None:
    """What the user said, from an answer to the extension method: `{answer}`, `{outcome: "answered", text}`, and the
    same one level down. None if the user did not answer, or it cannot be told."""
    if isinstance(answer, str):
        return _text(answer)
    if not isinstance(answer, dict):
        return None
    found = cast("dict[str, Any]", answer)
    outcome: Any = found.get("outcome")
    if isinstance(outcome, dict):
        return read_answer(cast("dict[str, Any]", outcome), options)
    if "outcome" in found and outcome not in ("answered", "selected", "accepted"):
        return None
    for name in ("answer", "text", "value", "option", "optionId"):
        if (said := _text(found.get(name))) is not None:
            return said
    index = found.get("index")
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(options):
        return options[index]
    return None


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip() or value.strip() == USER_UNAVAILABLE:
        return None
    return value.strip()


def _sound(answer: str | None) -> str | None:
    """The answer within bounds, and without half characters that no provider takes."""
    return None if answer is None else capped(answer.encode("utf-8", "replace").decode(), LONGEST_ANSWER)


# -- what the client has announced ---------------------------------------------------------------------------

_DEEPEST: Final = 5


def _announced(*metas: Mapping[str, Any]) -> bool | None:
    """Whether the client says that it serves the method, wherever in its `_meta`; None if it says nothing about it."""
    words = [word for meta in metas for word in _words(meta, _DEEPEST)]
    return None if not words else any(words)


def _words(value: Any, depth: int) -> list[bool]:
    if depth == 0:
        return []
    if isinstance(value, dict):
        found: list[bool] = []
        for name, inner in cast("dict[Any, Any]", value).items():
            if name == METHOD:
                found.append(inner is not False and inner is not None)
            else:
                found += _words(inner, depth - 1)
        return found
    if isinstance(value, list):
        return [word for inner in cast("list[Any]", value) for word in _words(inner, depth - 1)]
    return [True] if value == METHOD else []
