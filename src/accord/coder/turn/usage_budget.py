"""Budgets: limits of the cost, the tokens and the model requests of a turn and of a session."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accord.coder.session.coder_session import UsageTotal
from accord.coder.user_config import Config

if TYPE_CHECKING:
    from accord.coder.definitions.agents import AgentDefinition

_PRICE_UNKNOWN: Final = "the price of the model is unknown, so the limit cannot be kept"


class RequestLimit(NamedTuple):
    """How many model requests a loop may make, and the option or setting that says so."""

    number: int
    source: str


class UsageBudget:
    """What a turn may use. Checked before each model request, also of sub-agents."""

    def __init__(
        self, options: Mapping[str, float], config: Config, turn: UsageTotal, session: UsageTotal
    ) -> None:
        """`options` are the limits of the command line; they override those of the config."""
        self._options = options
        self._config = config
        self._turn = turn
        self._session = session

    def requests(self) -> "RequestLimit":
        """The limit of model requests of a turn, without those of its sub-agents.

        With `--max-requests`, `reached` counts these, too.
        """
        limit, source = self._limit("turn", "requests")
        return RequestLimit(int(limit or 1), source)

    def subagent_requests(self, agent: "AgentDefinition | None" = None) -> "RequestLimit":
        """The limit of model requests of one sub-agent. That of a custom agent only lowers it."""
        limit = self._config.turn.subagent_requests
        if agent is not None and agent.requests is not None and agent.requests < limit:
            return RequestLimit(agent.requests, agent.display_path)
        return RequestLimit(limit, "subagent_requests in [turn] of the config")

    def reached(self) -> str | None:
        """The limit that is used up, for the user; None while another request may be sent."""
        for scope, usage in (("turn", self._turn), ("session", self._session)):
            for unit, used in (("cost", usage.cost), ("tokens", usage.input + usage.output)):
                limit, source = self._limit(scope, unit)
                if limit is None:
                    continue
                if unit == "cost" and not usage.priced:
                    return f"{_PRICE_UNKNOWN} ({source})"
                if used >= limit:
                    return f"the {scope} has used {_amount(unit, used)} of {_amount(unit, limit)} ({source})"
            limit, source = self._limit(scope, "requests")
            if scope == "turn" and "requests" not in self._options:
                continue  # the limit of the config is for each loop
            if limit is not None and usage.requests >= limit:
                return f"the {scope} has made {usage.requests:,} of {limit:,.0f} model requests ({source})"
        return None

    def nearest(self) -> dict[str, Any] | None:
        """The limit that is used up first, for the client: what is used of it, its unit and its scope."""
        found: list[dict[str, Any]] = []
        for scope, usage in (("turn", self._turn), ("session", self._session)):
            for unit, used in (("cost", usage.cost), ("tokens", usage.input + usage.output)):
                limit, _ = self._limit(scope, unit)
                if limit is not None:
                    found.append({"scope": scope, "unit": unit, "used": used, "limit": limit})
        return max(found, key=lambda entry: entry["used"] / entry["limit"], default=None)

    def _limit(self, scope: str, unit: str) -> tuple[float | None, str]:
        """The limit, and the option or setting that it comes from."""
        name = unit if scope == "turn" else f"session_{unit}"
        if name in self._options:
            return self._options[name], f"--max-{name.replace('_', '-')}"
        settings = self._config.turn if scope == "turn" else self._config.session
        return getattr(settings, unit), f"{unit} in [{scope}] of the config"


def _amount(unit: str, value: float) -> str:
    return f"${value:,.4g}" if unit == "cost" else f"{value:,.0f} tokens"
