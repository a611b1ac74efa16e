"""The options that limit the usage of Accord's own agent: `--max-cost`, `--max-tokens`, `--max-requests`."""

import argparse
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from accord.cli.command_parser import Parser
from accord.errors import UsageError

if TYPE_CHECKING:
    from accord.frontend.agent_config import ConfiguredAgent

_SCOPES: Final = ("", "session_")
_UNITS: Final = ("cost", "tokens", "requests")


def add_budget_options(parser: Parser) -> None:
    """Add the options."""
    option = parser.option
    option("--max-cost USD", "end a turn before its next model request once it has cost this much")
    option("--max-tokens N", "end a turn once it has used this many tokens")
    option("--max-requests N", "end a turn after this many model requests (default: 200)")
    option("--max-session-cost USD", "end turns once the session has cost this much")
    option("--max-session-tokens N", "end turns once the session has used this many tokens")
    option("--max-session-requests N", "end turns after this many model requests in the session")


def read_budgets(options: argparse.Namespace) -> dict[str, float]:
    """Return the given limits by name: `cost`, `tokens`, `requests`, `session_cost`... Raises UsageError."""
    budgets: dict[str, float] = {}
    for name in (scope + unit for scope in _SCOPES for unit in _UNITS):
        text: str | None = getattr(options, f"max_{name}")
        if text is not None:
            budgets[name] = _read_limit(option_of(name), text, whole=not name.endswith("cost"))
    return budgets


def _read_limit(option: str, text: str, *, whole: bool) -> float:
    try:
        limit = int(text) if whole else float(text)
    except ValueError:
        limit = math.nan
    if not 0 < limit < math.inf:
        kind = "a whole number" if whole else "an amount in US dollars"
        raise UsageError(f"{option} {text!r} is not {kind} above 0")
    return limit


def option_of(name: str) -> str:
    """Return the option of a limit."""
    return f"--max-{name.replace('_', '-')}"


def with_budgets(agent: "ConfiguredAgent", budgets: Mapping[str, float]) -> "ConfiguredAgent":
    """Return the agent with the limits on its command line. Raises UsageError for agents of others."""
    if not budgets:
        return agent
    words = [f"{option_of(name)}={limit}" for name, limit in budgets.items()]
    if agent.uses_client_files or agent.config_location == "--url":
        raise UsageError(f"{words[0].partition('=')[0]} limits only Accord's own agent, not {agent.name}")
    return replace(agent, command=(*agent.start_command(), *words))
