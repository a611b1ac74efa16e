"""Writes `src/accord/coder/models/model_prices.json` from the data of the genai-prices package.

pip install --upgrade genai-prices && python tools/update_model_prices.py
"""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

from genai_prices import types
from genai_prices.data import providers

TARGET = Path(__file__).parent.parent / "src/accord/coder/models/model_prices.json"
PROVIDERS = {"anthropic": r"claude-", "openai": r"(gpt-|chatgpt-|o\d|codex-|computer-)", "google": r"gemini-"}
OTHER_KINDS = re.compile(r"embedding|tts|image|audio|realtime|live|transcribe|instruct|search|gpt-3|robotics")


def names(match: Any) -> list[str]:
    """The exact names of a model."""
    if isinstance(match, types.ClauseOr):
        return [name for clause in match.or_ for name in names(clause)]
    return [match.equals] if isinstance(match, types.ClauseEquals) else []


def rates(price: types.ModelPrice, start: int) -> list[float | None]:
    """Input, output, cached read and cached write of a prompt with more than `start` tokens."""
    found: list[float | None] = []
    for name in ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok"):
        value = getattr(price, name)
        if isinstance(value, types.TieredPrices):
            tiers = [tier.price for tier in value.tiers if tier.start <= start]
            value = tiers[-1] if tiers else value.base
        found.append(None if value is None else float(value))
    return found


def rows(price: types.ModelPrice, since: str) -> list[list[Any]]:
    starts = {0}
    for value in (price.input_mtok, price.output_mtok):
        if isinstance(value, types.TieredPrices):
            starts |= {tier.start for tier in value.tiers}
    return [[since, start, *rates(price, start)] for start in sorted(starts)]


def entry(model: types.ModelInfo) -> dict[str, Any] | None:
    dated = model.prices if isinstance(model.prices, list) else [types.ConditionalPrice(prices=model.prices)]
    found: list[list[Any]] = []
    for one in dated:
        if one.constraint is None or isinstance(one.constraint, types.StartDateConstraint):
            since = one.constraint.start_date.isoformat() if one.constraint else ""
            found += rows(one.prices, since)
    if not found or found[0][2] is None or found[0][3] is None:
        return None
    current = max(row[0] for row in found if row[0] <= date.today().isoformat())
    return {"context": model.context_window, "prices": [row for row in found if row[0] >= current]}


def main() -> None:
    lines: list[str] = []
    for provider in providers:
        if (pattern := PROVIDERS.get(provider.id)) is None:
            continue
        models: list[str] = []
        for model in provider.models:
            if re.match(pattern, model.id) and not OTHER_KINDS.search(model.id) and (data := entry(model)):
                unique = dict.fromkeys([model.id, *names(model.match)])
                models += [f"    {json.dumps(name)}: {json.dumps(data)}" for name in unique]
        lines.append(f"  {json.dumps(provider.id)}: {{\n" + ",\n".join(models) + "\n  }")
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
