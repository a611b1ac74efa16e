"""A refused prompt and everything after it leave the model's history."""

import pytest

from accord.coder.model_history import (
    Message,
    ToolUse,
    assistant_message,
    last_prompt_index,
    note_message,
    repair,
    result_message,
    user_message,
    without_refused_prompt,
)
from accord.errors import UsageError

READ = ToolUse("1", "read_file", {"path": "a.py"})
BEFORE: list[Message] = [
    user_message("read a.py"),
    assistant_message(READ),
    result_message(READ, "print(1)"),
    assistant_message("Done."),
    note_message("x"),
]
REFUSED: list[Message] = [
    user_message("do evil"),
    assistant_message("I"),
    note_message("go on"),
    assistant_message("cannot."),
]


def test_refused_prompt_and_later_messages_are_removed() -> None:
    history = BEFORE + REFUSED
    at = last_prompt_index(history)
    assert at == len(BEFORE)
    assert without_refused_prompt(history, len(BEFORE)) == BEFORE


def test_remaining_history_is_valid() -> None:
    torn = [user_message("go"), assistant_message(READ), user_message("do evil")]
    left = without_refused_prompt(torn, 2)
    assert repair(left) == left
    assert len(left) == 3


def test_refusing_the_first_prompt_leaves_an_empty_history() -> None:
    assert without_refused_prompt([user_message("do evil")], 0) == []
    assert last_prompt_index([]) is None
    assert last_prompt_index([note_message("x"), assistant_message("y")]) is None


@pytest.mark.parametrize("at", [-1, 1, 4, 9])
def test_only_a_prompt_can_be_refused(at: int) -> None:
    with pytest.raises(UsageError, match="message"):
        without_refused_prompt(BEFORE, at)
