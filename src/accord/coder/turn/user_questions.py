"""Asks the user a question for the model: by form, or by Agentao's extension method.

A client that announced neither is tried once with the extension method; if that fails, it is not tried again
on this connection. After a timeout the user is not asked again in the same turn. Only a clear answer counts
as one.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from accord.agent.turn import Turn
from accord.clock import SYSTEM_CLOCK, Clock, with_timeout
from accord.coder.bounded_text import truncate
from accord.coder.tools.ask_user import USER_UNAVAILABLE
from accord.coder.tools.tool import ToolFailure
from accord.coder.tools.tool_context import AskUser, UserQuestion
from accord.errors import AccordError, MethodNotFound, RpcError
from accord.safe_text import one_line
from accord.schema.client_requests import ElicitationPropertySchema, ElicitationSchema, StringPropertySchema
from accord.schema.methods import AGENTAO_ASK_USER

OTHER_OPTION: Final = "Something else"
"""An extra option beside the given ones: a required choice with a text field works in every client."""

QUESTION_CHARS: Final = 8_000
ANSWER_CHARS: Final = 20_000
OPTION_LIMIT: Final = 50

_SECRETS_REFUSED: Final = (
    "Not asked: answers of the user are shown and stored, so passwords, keys and other secrets are never "
    "asked for. Ask the user to put it where the program that needs it finds it, "
    "such as an environment variable, "
    "without telling you."
)


def question_asker(turn: Turn, *, seconds: float | None, clock: Clock = SYSTEM_CLOCK) -> AskUser:
    """The function that asks the user of this turn, one question at a time."""
    return _QuestionAsker(turn, seconds, clock)


class _QuestionAsker:
    def __init__(self, turn: Turn, seconds: float | None, clock: Clock) -> None:
        self._turn = turn
        self._seconds = seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._timed_out = False

    async def __call__(self, question: UserQuestion) -> str | None:
        """The answer, or None. Raises ToolFailure for a question about secrets."""
        cleaned = UserQuestion(
            truncate(question.text.strip(), QUESTION_CHARS), _clean_options(question.options)
        )
        if not cleaned.options and asks_for_secret(cleaned.text):
            raise ToolFailure(_SECRETS_REFUSED)
        async with self._lock:
            if self._timed_out:
                return None
            try:
                return _limit_answer(await with_timeout(self._ask(cleaned), self._seconds, self._clock))
            except TimeoutError:
                self._timed_out = True
                return None

    async def _ask(self, question: UserQuestion) -> str | None:
        client = self._turn.client
        if client.can_show_forms:
            answer = await self._turn.elicit(question.text, _form(question))
            if answer:
                return _form_answer(answer.content, question)
            if not isinstance(answer.error, RpcError):
                return None
        return await self._ask_by_extension(question)

    async def _ask_by_extension(self, question: UserQuestion) -> str | None:
        client = self._turn.client
        announced = _announces_method(
            client.capabilities.meta or {}, client.info.meta or {} if client.info else {}
        )
        if announced is False or AGENTAO_ASK_USER in client.unsupported_methods:
            return None
        params: dict[str, Any] = {"sessionId": self._turn.session.id, "question": question.text}
        if question.options:
            params["options"] = list(question.options)
        try:
            return read_answer(await client.request(AGENTAO_ASK_USER, params), question.options)
        except MethodNotFound:
            return None  # the client object remembers that
        except RpcError:
            if announced is None:
                client.unsupported_methods.add(AGENTAO_ASK_USER)
            return None
        except AccordError:
            return None


# -- questions -----------------------------------------------------------------------------------------------

_ASKING: Final = r"(?:enter|provide|paste|type|give|share|send|tell|supply|need|what(?:'s| is| are)|whats)"
_SECRET: Final = (
    r"(?:pass(?:word|phrase|code)s?|(?:api|secret|private|access|ssh|signing|encryption)[ _-]?keys?"
    r"|(?:\w+[ -])?(?:access|auth|api|bearer|session|github|gitlab|npm|pypi)[ _-]tokens?"
    r"|credentials|one[- ]time (?:code|password)|otp|recovery codes?|seed phrase|(?:credit )?card number"
    r"|cvv|cvc)"
)
_FOR_SECRET: Final = re.compile(
    rf"\b{_ASKING}\b[^.?!\n]{{0,60}}\b{_SECRET}\b(?=\s*(?:[.?!,;:)]|$|for\b|to\b|of\b|so\b))", re.I
)


def asks_for_secret(text: str) -> bool:
    """Whether the question asks for a password, key or other secret."""
    return _FOR_SECRET.search(text) is not None


def _clean_options(options: Sequence[str]) -> tuple[str, ...]:
    cleaned = (one_line(option) for option in options)
    return tuple(dict.fromkeys(option for option in cleaned if option))[:OPTION_LIMIT]


def _form(question: UserQuestion) -> ElicitationSchema:
    if not question.options:
        fields: dict[str, ElicitationPropertySchema] = {
            "answer": StringPropertySchema(title="Answer", min_length=1)
        }
        return ElicitationSchema("object", fields, ["answer"])
    choices = list(dict.fromkeys((*question.options, OTHER_OPTION)))
    fields = {
        "choice": StringPropertySchema(title="Choice", enum=choices),
        "words": StringPropertySchema(
            title="In your own words", description=f"For “{OTHER_OPTION}”, or to add something."
        ),
    }
    return ElicitationSchema("object", fields, ["choice"])


# -- answers -------------------------------------------------------------------------------------------------


def _form_answer(content: Mapping[str, Any], question: UserQuestion) -> str | None:
    if not question.options:
        return _answer_text(content.get("answer"))
    choice, words = _answer_text(content.get("choice")), _answer_text(content.get("words"))
    if choice is None or words is None:
        return choice or words
    return words if choice == OTHER_OPTION else f"{choice}\n{words}"


def read_answer(answer: Any, options: Sequence[str] = ()) -> str | None:
    """The answer in a response to the extension method: `{answer}`, `{outcome: "answered", text}`, or one
    level deeper.

    None if the user did not answer or the response is unclear.
    """
    if isinstance(answer, str):
        return _answer_text(answer)
    if not isinstance(answer, dict):
        return None
    members = cast("dict[str, Any]", answer)
    outcome: Any = members.get("outcome")
    if isinstance(outcome, dict):
        return read_answer(cast("dict[str, Any]", outcome), options)
    if "outcome" in members and outcome not in ("answered", "selected", "accepted"):
        return None
    for name in ("answer", "text", "value", "option", "optionId"):
        if (text := _answer_text(members.get(name))) is not None:
            return text
    index = members.get("index")
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(options):
        return options[index]
    return None


def _answer_text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip() or value.strip() == USER_UNAVAILABLE:
        return None
    return value.strip()


def _limit_answer(answer: str | None) -> str | None:
    """The answer with a bounded length and without lone surrogates, which providers refuse."""
    return None if answer is None else truncate(answer.encode("utf-8", "replace").decode(), ANSWER_CHARS)


# -- announced capabilities ----------------------------------------------------------------------------------

_META_DEPTH: Final = 5


def _announces_method(*metas: Mapping[str, Any]) -> bool | None:
    """Whether the client announces the method anywhere in its `_meta`; None if it does not mention it."""
    mentions = [mention for meta in metas for mention in _find_mentions(meta, _META_DEPTH)]
    return None if not mentions else any(mentions)


def _find_mentions(value: Any, depth: int) -> list[bool]:
    if depth == 0:
        return []
    if isinstance(value, dict):
        mentions: list[bool] = []
        for name, inner in cast("dict[Any, Any]", value).items():
            if name == AGENTAO_ASK_USER:
                mentions.append(inner is not False and inner is not None)
            else:
                mentions += _find_mentions(inner, depth - 1)
        return mentions
    if isinstance(value, list):
        return [mention for inner in cast("list[Any]", value) for mention in _find_mentions(inner, depth - 1)]
    return [True] if value == AGENTAO_ASK_USER else []
