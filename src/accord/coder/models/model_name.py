"""Parses `provider:name`; guesses vision support from the model name.

Keep heavy imports out.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

# MERGED coder.models.names: How a model is named: `provider:name`, `provider/name`, or a bare name at the provider in use.

REHEARSAL: Final = "rehearsal"
"""The built-in model, and its provider."""
REHEARSAL_CONTEXT: Final = 100_000
"""The size of its context window, in tokens."""
_ALIASES: Final = {"gemini": "google"}


class ModelName(NamedTuple):
    """A model at a provider."""

    provider: str
    name: str

    def __str__(self) -> str:
        return self.provider if self.provider == self.name == REHEARSAL else f"{self.provider}:{self.name}"


def provider_name(text: str) -> str:
    """A provider's own name, from what somebody typed."""
    name = text.strip().lower()
    return _ALIASES.get(name, name)


def read_name(text: str, is_provider: Callable[[str], bool], current: str | None = None) -> ModelName | None:
    """The model that is meant. None if no provider is named and none is in use.

    The first colon or slash ends the provider's name, if that is one; otherwise, and in a bare name, colons and slashes
    belong to a model of the provider in use (`llama3:8b`, `qwen/qwen3-coder`).
    """
    text = text.strip()
    if text == REHEARSAL:
        return ModelName(REHEARSAL, REHEARSAL)
    ends = [end for mark in ":/" if (end := text.find(mark)) > 0]
    if ends:
        provider, name = provider_name(text[: min(ends)]), text[min(ends) + 1 :]
        if name and is_provider(provider):
            return ModelName(provider, name)
    return ModelName(current, text) if current and text else None


# MERGED coder.models.seeing: Which models look at pictures, by the family of their names: for those that nobody says it of.

_SEEING: Final = re.compile(r"(?:gpt-(?:4o|4\.1|[5-9])|chatgpt|o[134](?:-|$)|claude|gemini)", re.IGNORECASE)
"""The families of models of which it is known that they see. Of others the config may say so."""


def sees_by_name(name: str) -> bool:
    """Whether models of this family look at pictures."""
    return _SEEING.match(name.rpartition("/")[2]) is not None
