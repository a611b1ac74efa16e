"""Parses model names (`provider:name`, `provider/name` or a bare name); guesses vision support from a name.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

MODEL_VARIABLE: Final = "ACCORD_MODEL"
REHEARSAL: Final = "rehearsal"
"""The built-in model, and its provider."""
REHEARSAL_CONTEXT: Final = 100_000
"""The size of its context window, in tokens."""
Kind: TypeAlias = Literal["openai-responses", "openai-chat", "anthropic", "google"]
"""The wire format of a provider."""
PROVIDER_KINDS: Final[dict[str, Kind]] = {
    "openai": "openai-responses",
    "openai-responses": "openai-responses",
    "openai-chat": "openai-chat",
    "anthropic": "anthropic",
    "google": "google",
}
"""The providers that need no entry in the config."""
_PROVIDER_ALIASES: Final = {"gemini": "google"}


class ModelName(NamedTuple):
    """A model at a provider."""

    provider: str
    name: str

    def __str__(self) -> str:
        return self.provider if self.provider == self.name == REHEARSAL else f"{self.provider}:{self.name}"


def normalize_provider(text: str) -> str:
    """Return the provider's name in its canonical form."""
    name = text.strip().lower()
    return _PROVIDER_ALIASES.get(name, name)


def parse_model_name(
    text: str, is_provider: Callable[[str], bool], current: str | None = None
) -> ModelName | None:
    """Parse a model name. Return None if the text names no provider and there is no `current` one.

    Text before the first colon or slash is the provider if `is_provider` accepts it. Otherwise the whole text
    is a model of the current provider (`llama3:8b`, `qwen/qwen3-coder`).
    """
    text = text.strip()
    if text == REHEARSAL:
        return ModelName(REHEARSAL, REHEARSAL)
    ends = [end for separator in ":/" if (end := text.find(separator)) > 0]
    if ends:
        provider, name = normalize_provider(text[: min(ends)]), text[min(ends) + 1 :]
        if name and is_provider(provider):
            return ModelName(provider, name)
    return ModelName(current, text) if current and text else None


_VISION_MODELS: Final = re.compile(
    r"(?:gpt-(?:4o|4\.1|[5-9])|chatgpt|o[134](?:-|$)|claude|gemini)", re.IGNORECASE
)
"""Model families that are known to accept images. The configuration can say so for other models."""


def guess_vision(name: str) -> bool:
    """Return whether the model's name belongs to a family that accepts images."""
    return _VISION_MODELS.match(name.rpartition("/")[2]) is not None
