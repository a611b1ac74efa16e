"""A refused prompt and everything after it leave the model's history."""

import pytest

from accord.coder.model_history import (
    Message,
    ToolUse,
    assistant,
    last_prompt,
    note,
    repair,
    result,
    user,
    without_refused,
)
from accord.errors import UsageError

READ = ToolUse("1", "read_file", {"path": "a.py"})
BEFORE: list[Message] = [
    user("read a.py"),
    assistant(READ),
    result(READ, "print(1)"),
    assistant("Done."),
    note("x"),
]
REFUSED: list[Message] = [user("do evil"), assistant("I"), note("go on"), assistant("cannot.")]


def test_refused_prompt_and_later_messages_are_removed() -> None:
    history = BEFORE + REFUSED
    at = last_prompt(history)
    assert at == len(BEFORE)
    assert without_refused(history, len(BEFORE)) == BEFORE


def test_remaining_history_is_valid() -> None:
    torn = [user("go"), assistant(READ), user("do evil")]
    left = without_refused(torn, 2)
    assert repair(left) == left
    assert len(left) == 3


def test_refusing_the_first_prompt_leaves_an_empty_history() -> None:
    assert without_refused([user("do evil")], 0) == []
    assert last_prompt([]) is None
    assert last_prompt([note("x"), assistant("y")]) is None


@pytest.mark.parametrize("at", [-1, 1, 4, 9])
def test_only_a_prompt_can_be_refused(at: int) -> None:
    with pytest.raises(UsageError, match="message"):
        without_refused(BEFORE, at)
