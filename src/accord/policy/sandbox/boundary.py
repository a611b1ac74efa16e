"""What a sandbox enforces and what it does not, as data and as lines for people. Nothing is claimed that is not there."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Aspect = Literal["writes", "secrets", "network", "sockets", "temp", "processes", "privileges"]

DECISIVE: Final[tuple[Aspect, ...]] = ("writes", "secrets", "network", "sockets")
"""Without one of these a command can do harm outside, so it is no boundary to run commands in unasked."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One aspect of a boundary, in one line."""

    aspect: Aspect
    enforced: bool
    text: str

    def __str__(self) -> str:
        return f"{self.aspect}: {'' if self.enforced else 'NOT enforced: '}{self.text}"


@dataclass(frozen=True, slots=True)
class Boundary:
    """What is in force for the commands of one sandbox."""

    backend: str
    """`bubblewrap`, `landlock` or `none`."""
    facts: tuple[Fact, ...]
    why: tuple[str, ...] = ()
    """Why no better backend is used, one line each."""
    network: bool = False
    """Whether the network was left open by choice."""

    @property
    def holds(self) -> bool:
        """Whether a command may run in it unasked: every decisive aspect is enforced, or open by choice."""
        return all(fact.enforced or (fact.aspect == "network" and self.network) for fact in self.decisive())

    def decisive(self) -> Iterator[Fact]:
        """The facts that decide whether the boundary holds."""
        return map(self.fact, DECISIVE)

    def fact(self, aspect: Aspect) -> Fact:
        """What is said about one aspect; not enforced if nothing is."""
        return next(
            (fact for fact in self.facts if fact.aspect == aspect), Fact(aspect, False, "nothing is known")
        )

    def lines(self) -> list[str]:
        """The whole report."""
        return [f"sandbox: {self.summary()}", *map(str, self.facts), *self.why]

    def summary(self) -> str:
        """The report in one line."""
        if self.backend == "none":
            return "none: commands run with all your rights"
        missing = [fact.aspect for fact in self.decisive() if not fact.enforced and fact.aspect != "network"]
        network = "off" if self.fact("network").enforced else "open"
        if not missing:
            return f"{self.backend}: writes only in the roots, secrets hidden, network {network}"
        return f"{self.backend}: network {network}; NOT enforced: {', '.join(missing)}"


UNCONFINED: Final = (
    Fact("writes", False, "commands write wherever you may"),
    Fact(
        "secrets",
        False,
        "commands read whatever you may; only variables with credentials are taken from them",
    ),
    Fact("network", False, "commands reach the network"),
    Fact("sockets", False, "commands reach your session's buses, key agents and container engines"),
    Fact("temp", False, "commands use the common temporary folder"),
    Fact("processes", False, "commands see, signal and outlive others as any program of yours"),
    Fact("privileges", False, "commands may use sudo and the like where you may"),
)
