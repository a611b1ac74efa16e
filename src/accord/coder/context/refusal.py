"""What is left of a history when a provider refused a prompt."""

from collections.abc import Sequence

from accord.coder.messages import Message, UserMessage, repair
from accord.errors import UsageError


def last_prompt(history: Sequence[Message]) -> int | None:
    """Where the last prompt of the user stands; None if there is none. Notes of the agent are no prompts."""
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        if isinstance(message, UserMessage) and not message.note:
            return index
    return None


def without_refused(history: Sequence[Message], prompt_index: int) -> list[Message]:
    """The history without the prompt at that place and all that followed it.

    A turn that was compacted on its way has told the summary of it: give the history as it was when the turn began.
    """
    if not 0 <= prompt_index < len(history):
        raise UsageError(f"there is no message {prompt_index} in a history of {len(history)}")
    refused = history[prompt_index]
    if not isinstance(refused, UserMessage) or refused.note:
        raise UsageError(f"message {prompt_index} is no prompt of the user")
    return repair(history[:prompt_index])
