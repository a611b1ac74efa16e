"""`/usage`: what the session has used so far."""

from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.coder.commands.command import BuiltIn, Reply

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench


async def run(text: str, turn: Turn, bench: "Workbench") -> Reply:
    """Tokens, cost, and how full the context is."""
    conversation = bench.conversation
    spent = conversation.spending
    if not spent.requests:
        return Reply("Nothing used yet: the model was not asked anything in this session.")
    cached = f" ({spent.cached_read:,} of them from the cache)" if spent.cached_read else ""
    thought = f" ({spent.thought:,} of them thoughts)" if spent.thought else ""
    lines = [
        f"- Requests to the model: {spent.requests:,}",
        f"- Tokens read: {spent.input:,}{cached}",
        f"- Tokens written: {spent.output:,}{thought}",
        f"- Cost: {_cost(spent.cost, spent.priced)}",
    ]
    size = (await bench.model()).context_size
    if size:
        used = conversation.used
        lines.append(f"- Context: {used:,} of {size:,} tokens ({100 * used // size} %)")
    else:
        lines.append(f"- Context: {conversation.used:,} tokens; how many fit is not known")
    return Reply("\n".join(["This session so far, sub-agents included:", "", *lines]))


def _cost(amount: float, priced: bool) -> str:
    if priced:
        return f"${amount:,.4f}"
    return f"at least ${amount:,.4f}; the price of some requests is not known" if amount else "not known"


USAGE: Final = BuiltIn("usage", "Show what this session has used so far", None, run)
