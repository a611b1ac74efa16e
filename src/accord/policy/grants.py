"""What the user agreed to, or refused, for the rest of a session ("always"), no wider than it was offered."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

GrantKind = Literal["tool", "command", "path", "host"]


class Grant(NamedTuple):
    """One thing that can be agreed to: a tool, a program with its subcommand, a path for one of them, a host."""

    kind: GrantKind
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"`{' '.join(self.key)}`" if self.kind == "command" else self.key[-1]


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything that one "always" would cover. All of it has to be agreed to for the same request to pass again."""

    grants: tuple[Grant, ...]

    def __str__(self) -> str:
        said = [str(grant) for grant in self.grants if grant.kind != "path"]
        places = [grant for grant in self.grants if grant.kind == "path"]
        said = said or [grant.key[-2] for grant in places]
        where = " and ".join(dict.fromkeys(str(grant) for grant in places))
        return ", ".join(dict.fromkeys(said)) + (f" on {where}" if where else "")


@dataclass(slots=True)
class Grants:
    """What one session has been told. It lives as long as the session and is nobody else's."""

    _allowed: set[Grant] = field(default_factory=set[Grant])
    _refused: list[frozenset[Grant]] = field(default_factory=list[frozenset[Grant]])

    def allow(self, scope: Scope) -> None:
        """Agree to everything in the scope."""
        self._allowed.update(scope.grants)
        self._refused = [refused for refused in self._refused if not refused <= set(scope.grants)]

    def refuse(self, scope: Scope) -> None:
        """Refuse whatever includes all that is in the scope."""
        if scope.grants:
            self._refused.append(frozenset(scope.grants))
            self._allowed.difference_update(scope.grants)

    def see(self, host: str) -> None:
        """A host was fetched from with the user's consent: it is not asked for again."""
        self._allowed.add(Grant("host", (host,)))

    def covers(self, grant: Grant | None) -> bool:
        """Whether this was agreed to."""
        return grant is not None and grant in self._allowed

    def refuses(self, grants: Iterable[Grant]) -> bool:
        """Whether something was refused that these include."""
        asked = set(grants)
        return any(refused <= asked for refused in self._refused)
