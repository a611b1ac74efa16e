"""The table of prices and context sizes, and the cost of a request."""

import pytest

from accord.coder.models import RequestUsage
from accord.coder.models.endpoints import DEFAULT_MODELS
from accord.coder.models.provider_request import KnownModel, cost_of, known_model
from accord.coder.user_config import ModelFacts


@pytest.mark.parametrize("provider", DEFAULT_MODELS)
def test_default_models_are_known(provider: str) -> None:
    known = known_model(provider, DEFAULT_MODELS[provider])
    assert known is not None
    assert known.context is not None
    assert known.context > 100_000
    prices = known.prices(1000)
    assert 0 < (prices.input or 0) < (prices.output or 0)


@pytest.mark.parametrize(
    ("provider", "name", "same_as"),
    [
        ("anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic", "claude-sonnet-5-20260101", "claude-sonnet-5"),
        ("openai", "gpt-5-2025-08-07", "gpt-5"),
        ("openai", "gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("google", "gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
    ],
)
def test_dated_name_means_the_same_model(provider: str, name: str, same_as: str) -> None:
    assert known_model(provider, name) is not None
    assert known_model(provider, name) == known_model(provider, same_as)


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("anthropic", "claude-sonnet-5-9"),
        ("openai", "gpt-5-unheard-of"),
        ("openai", "claude-sonnet-5"),
        ("mine", "gpt-5"),
    ],
)
def test_other_models_are_unknown(provider: str, name: str) -> None:
    assert known_model(provider, name) is None


def test_prices_depend_on_the_day_and_the_size_of_the_prompt() -> None:
    known = KnownModel(
        [
            ("", 0, 1.0, 2.0, 0.1, None),
            ("2020-01-01", 0, 3.0, 4.0, 0.3, None),
            ("2020-01-01", 1000, 6.0, 8.0, 0.6, None),
            ("9999-01-01", 0, 50.0, 60.0, 5.0, None),
        ]
    )
    assert known.prices(1000) == ModelFacts(input=3.0, output=4.0, cached_read=0.3)
    assert known.prices(1001) == ModelFacts(input=6.0, output=8.0, cached_read=0.6)


def test_cost_counts_cached_tokens_by_their_own_prices() -> None:
    usage = RequestUsage(input=1_000_000, output=100_000, cached_read=400_000, cached_write=100_000)
    assert cost_of(usage, ModelFacts(input=2.0, output=10.0)) == pytest.approx(3.0)
    facts = ModelFacts(input=2.0, output=10.0, cached_read=0.5, cached_write=4.0)
    assert cost_of(usage, facts) == pytest.approx(1.0 + 0.2 + 0.4 + 1.0)
    assert cost_of(usage, ModelFacts(input=2.0)) is None
