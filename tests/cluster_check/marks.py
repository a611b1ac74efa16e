"""The marks in texts of a cluster check, by which each prompt, chunk and question is recognized.

`NAME?` is a prompt, `NAME:3` its fourth chunk, `NAME!0` its first question.
"""

import json
import re
from typing import Any, Final

_MARK: Final = re.compile(r"([a-z]\w*\.\d+(?:\?|:\d+|!\d+))")
_SHOWN: Final = frozenset(
    {
        "user_message_chunk",
        "agent_message_chunk",
        "tool_call",
        "_accord/turn_started",
        "_accord/message_changed",
        "_accord/tool_call_changed",
    }
)
"""The updates and events that show marks to a user; others, such as titles, only repeat them."""


def marks_in(text: str) -> list[str]:
    """The marks of a text, in order."""
    return _MARK.findall(text)


def shown_marks(kind: str, value: Any) -> list[str]:
    """The marks that an update or an event of this kind shows."""
    return marks_in(json.dumps(value)) if kind in _SHOWN else []


def prompt_of(mark: str) -> str:
    """The name of the prompt that a mark belongs to."""
    return re.split(r"[?:!]", mark)[0]


def is_prompt(mark: str) -> bool:
    return mark.endswith("?")


def is_question(mark: str) -> bool:
    return "!" in mark
