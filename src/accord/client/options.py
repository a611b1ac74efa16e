"""What a client may set about a connection, beside what it offers to the agent."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from accord import __version__
from accord.client.limits import TimeLimits
from accord.client.restart import RestartPolicy
from accord.clock import SYSTEM_CLOCK, Clock
from accord.schema import Implementation
from accord.wire.framing import DEFAULT_LIMIT
from accord.wire.routes import Limits, Report
from accord.wire.transport import Transport


@dataclass(frozen=True, slots=True)
class DialectReport:
    """The agent speaks a dialect: which row of the table, and what that row says. Once per row and agent."""

    row: int
    detail: str
    kind: Literal["dialect"] = "dialect"


ClientReport: TypeAlias = Report | DialectReport


class ClientObserver(Protocol):
    """Told about what is survived: noise, unreadable or unmatched messages, failing handlers, dialects."""

    def __call__(self, report: ClientReport, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the client shows, beyond what the protocol takes for granted. The agent is told, and sends it only then."""

    notices: bool = True
    compaction: bool = True
    boolean_options: bool = True
    plans: bool = False
    """Unstable: several plans at once."""
    subagents: bool = False
    """Unstable: child sessions."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The `_meta` of the capabilities: announce extensions here, under a key of your own domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Everything that has a default."""

    info: Implementation = field(
        default_factory=lambda: Implementation("accord", __version__, title="Accord")
    )
    """Who the client is; the agent may show it."""
    limits: TimeLimits = field(default_factory=TimeLimits)
    restart: RestartPolicy | None = None
    """Whether an agent that dies is started again."""
    strict: bool = False
    """Judge what the agent sends as sent, without the repairs of the dialect table."""
    features: Features = field(default_factory=Features)
    observer: ClientObserver | None = None
    on_stderr: Callable[[str], None] | None = None
    """Gets each line of the agent's stderr."""
    buffers: Limits = field(default_factory=Limits)
    """Bounds on what may lie unread and unsent, in bytes."""
    largest_message: int = DEFAULT_LIMIT
    """Bytes; a longer message of a program that is started here is refused, the connection goes on."""
    wrap: Callable[[Transport], Transport] | None = None
    """Stands between each transport and the connection on it: a tap, for instance, again after each restart."""
    clock: Clock = SYSTEM_CLOCK

    def observe(self, report: ClientReport) -> None:
        """Tell the observer, if there is one; what goes wrong in it is the event loop's to report."""
        if self.observer is None:
            return
        try:
            self.observer(report)
        except Exception as error:  # noqa: BLE001 - the boundary to the application's observer
            context = {"message": "an observer of an Accord client failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
