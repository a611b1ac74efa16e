"""Prices and context sizes of the providers' own models, and the cost of a request.

`model_prices.json` holds data of the genai-prices package (MIT license); `tools/update_model_prices.py`
writes it. A row of prices is: first day, more than this many input tokens, then US dollars per million tokens
of input, output, cached read and cached write.
"""

import re
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from accord.coder.models.model import RequestUsage
from accord.coder.user_config import ModelFacts

_Row: TypeAlias = tuple[str, int, float, float, float | None, float | None]

_SUFFIX: Final = re.compile(r"(?:-\d{3,4}|-\d{8}|-\d{4}-\d\d-\d\d|-latest|-preview.*|-exp.*|@.*)?")
"""What may follow the name in the table: a date or a version of the same model."""


class KnownModel(Struct, frozen=True):
    """A model of the table."""

    rows: list[_Row] = msgspec.field(name="prices")
    context: int | None = None

    def prices(self, input_tokens: int) -> ModelFacts:
        """Return the prices of today for a prompt of this size."""
        today = datetime.now(UTC).date().isoformat()
        valid = [row for row in self.rows if row[0] <= today and (row[1] == 0 or input_tokens > row[1])]
        _, _, input_price, output_price, read_price, write_price = valid[-1] if valid else self.rows[0]
        return ModelFacts(
            input=input_price, output=output_price, cached_read=read_price, cached_write=write_price
        )


def known_model(provider: str, name: str) -> KnownModel | None:
    """Return a provider's model: the longest name in the table that is this one, with or without a date."""
    models = _table().get(provider, {})
    matches = [key for key in models if name.startswith(key) and _SUFFIX.fullmatch(name, len(key))]
    return models[max(matches, key=len)] if matches else None


def known_by_name(name: str) -> KnownModel | None:
    """Return the model that a name at another server means, such as `anthropic/claude-sonnet-4.5`.

    Names may have the provider or a region before them, and a version of the server behind them.
    """
    if name.endswith(":free"):
        return None
    text = name.lower().rpartition("/")[2].partition(":")[0]
    text = re.sub(r"^(?:[a-z]+\.)+(?=claude|gpt|gemini|o\d)|-v\d+$", "", text)
    names = (text, re.sub(r"(?<=\d)\.(?=\d)", "-", text))
    found = (known_model(provider, one) for provider in _table() for one in names)
    return next((model for model in found if model is not None), None)


@cache
def _table() -> dict[str, dict[str, KnownModel]]:
    data = files("accord.coder.models").joinpath("model_prices.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, dict[str, KnownModel]])


def cost_of(usage: RequestUsage, facts: ModelFacts) -> float | None:
    """Return the cost in US dollars by these prices; None unless those of input and output are known."""
    if facts.input is None or facts.output is None:
        return None
    read_price = facts.input if facts.cached_read is None else facts.cached_read
    write_price = facts.input if facts.cached_write is None else facts.cached_write
    uncached = max(0, usage.input - usage.cached_read - usage.cached_write)
    total = (
        uncached * facts.input
        + usage.cached_read * read_price
        + usage.cached_write * write_price
        + usage.output * facts.output
    )
    return total / 1_000_000
