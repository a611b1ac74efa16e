"""What a request cost, by the prices in the config."""

from accord.coder.models.config import ModelFacts
from accord.coder.models.model import Usage


def cost_of(usage: Usage, facts: ModelFacts) -> float | None:
    """In US dollars; None unless both prices are set."""
    if facts.input is None or facts.output is None:
        return None
    read = facts.input if facts.cached_read is None else facts.cached_read
    write = facts.input if facts.cached_write is None else facts.cached_write
    fresh = max(0, usage.input - usage.cached_read - usage.cached_write)
    total = (
        fresh * facts.input
        + usage.cached_read * read
        + usage.cached_write * write
        + usage.output * facts.output
    )
    return total / 1_000_000
