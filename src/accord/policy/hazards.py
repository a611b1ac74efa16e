"""Places that are asked for by name: outside the roots, secrets, files that steer other programs."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from .acts import Act
from .bounds import Bounds, Place
from .grants import Grant
from .request import Request
from .secretfiles import is_secret, steers

Danger = Literal["secret", "outside", "steering"]


class Hazard(NamedTuple):
    """One place and why it is asked for."""

    danger: Danger
    place: Place

    @property
    def reason(self) -> str:
        """In one line."""
        named = self.place.named
        leads = f" (which leads to {self.place.real})" if self.place.real != named else ""
        match self.danger:
            case "secret":
                return f"{named}{leads} may hold secrets"
            case "outside":
                return f"{named}{leads} lies outside the session's folders"
            case _:
                return f"{named}{leads} decides what other programs run"

    def grant(self, act: Act, request: Request) -> Grant:
        """What an "always" for it covers: this place, for this tool or program."""
        who = act.command.name if act.command else request.tool or request.kind or act.sort
        return Grant("path", (self.danger, who, str(self.place.real)))


def hazards(act: Act, bounds: Bounds) -> Iterator[Hazard]:
    """Everything about the places of an act that needs a word of its own."""
    writes = act.sort in ("write", "use") or (act.sort == "run" and not act.only_reads)
    for place in act.places:
        if _secret(place, bounds):
            yield Hazard("secret", place)
        if not bounds.is_inside(place.real):
            yield Hazard("outside", place)
        elif writes and _steering(place, bounds):
            yield Hazard("steering", place)


def _secret(place: Place, bounds: Bounds) -> bool:
    if any(place.real.is_relative_to(folder) for folder in bounds.private):
        return True
    return is_secret(place.real) or is_secret(place.named)


def _steering(place: Place, bounds: Bounds) -> bool:
    # Only what lies inside the roots counts: a root may itself lie in such a folder.
    inside = [root for root in bounds.roots if place.real.is_relative_to(root)]
    named = [root for root in bounds.roots if place.named.is_relative_to(root)]
    return any(steers(place.real.relative_to(root)) for root in inside) or any(
        steers(place.named.relative_to(root)) for root in named
    )
