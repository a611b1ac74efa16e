"""The end of a turn: how it ended, how long it took, what it cost."""

from accord.cleaning import clean_text, one_line
from accord.cli.output.style import DIM, YELLOW, Style
from accord.cli.output.width import cells
from accord.client.words import ending, seconds
from accord.schema import Usage, UsageUpdate
from accord.session import TurnEnded


def closing_lines(
    ended: TurnEnded | None,
    context: UsageUpdate | None,
    duration: float,
    session_id: str,
    style: Style,
    width: int | None,
) -> list[str]:
    """What to tell at the end, on one line where it fits."""
    parts = [ending(ended), seconds(duration)]
    if ended is not None and ended.usage is not None:
        parts.append(_tokens(ended.usage))
    if context is not None:
        parts += _window(context)
    if session_id:
        parts.append(f"session {one_line(clean_text(session_id), 80)}")
    good = ended is not None and ended.stop_reason == "end_turn"
    return [
        style.paint(line, DIM if good else YELLOW) for line in _joined(parts, f" {style.signs.dot} ", width)
    ]


def _joined(parts: list[str], between: str, width: int | None) -> list[str]:
    lines = [parts[0]]
    for part in parts[1:]:
        longer = lines[-1] + between + part
        if width is not None and cells(longer) > width:
            lines.append(part)
        else:
            lines[-1] = longer
    return lines


def _tokens(usage: Usage) -> str:
    said = f"{usage.total_tokens:,} tokens ({usage.input_tokens:,} in, {usage.output_tokens:,} out"
    if usage.thought_tokens:
        said += f", {usage.thought_tokens:,} thought"
    if usage.cached_read_tokens:
        said += f", {usage.cached_read_tokens:,} cached"
    return f"{said})"


def _window(context: UsageUpdate) -> list[str]:
    parts: list[str] = []
    if context.size:
        parts.append(f"context {context.used * 100 // context.size} % of {context.size:,}")
    if context.cost and context.cost.amount:
        currency = one_line(clean_text(context.cost.currency), 12)
        parts.append(f"{context.cost.amount:.4g} {currency}")
    return parts
