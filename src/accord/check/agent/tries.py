"""Tries: single calls with what must come of them, as data. A scene plays a table of them."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from accord.check.agent.talk import Talk
from accord.check.conversation import ABSENT, Answer
from accord.check.ledger import Rule

Want: TypeAlias = int | Literal["error", "result", "object", "known"]
"""An error code; any error; any result; a result that is an object; anything but "no such method"."""


class Try(NamedTuple):
    """One call. Texts that begin with `$` in its params stand for values of the scene."""

    rule: Rule
    method: str
    params: Any
    want: Want
    gate: str = ""


async def play(talk: Talk, tries: Iterable[Try], **values: Any) -> list[Answer]:
    """Make the calls in order and note how each went; those behind a capability the agent lacks are left out."""
    answers: list[Answer] = []
    for one in tries:
        if one.gate and not talk.has(one.gate):
            talk.ledger.absent(one.rule, f"it does not advertise {one.gate}")
            continue
        params = one.params if one.params is ABSENT else put(one.params, values)
        answer = await talk.call(one.method, params)
        judge(answer, one, talk)
        answers.append(answer)
    return answers


def judge(answer: Answer, one: Try, talk: Talk) -> bool:
    """Note whether the answer is what was wanted."""
    wanted = "an error" if one.want == "error" else f"error {one.want}"
    match one.want:
        case "result":
            kept, wanted = answer.ok, "a result"
        case "object":
            kept, wanted = answer.ok and isinstance(answer.result, dict), "an object"
        case "known":
            kept, wanted = answer.code != -32601, "that the method is there"
        case "error":
            kept = not answer.ok
        case code:
            kept = not answer.ok and answer.code == code
    return talk.ledger.judge(
        one.rule, kept, f"{one.method} gave {answer.says}", f"{one.method} gave {answer.says}; expected {wanted}",
        answer.shown,
    )  # fmt: skip


def put(value: Any, values: dict[str, Any]) -> Any:
    """The value with `$name` replaced, at any depth."""
    if isinstance(value, str):
        return values.get(value[1:], value) if value.startswith("$") else value
    if isinstance(value, list):
        return [put(item, values) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {name: put(item, values) for name, item in cast(dict[str, Any], value).items()}
    return value
