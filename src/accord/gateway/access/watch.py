"""What was let in with a token ends with it: when it is revoked, by whatever process, and when its time is over."""

from collections.abc import Callable
from typing import Final

from accord.clock import Clock, Timer
from accord.gateway.access.limits import Lease
from accord.gateway.access.passes import Pass
from accord.gateway.access.tokens import Tokens

LOOKED_EVERY: Final = 0.5
_Ended = Callable[[str], None]


class Watch:
    """Looks about twice a second whether the tokens are still there that somebody is in with: one call to the system for each."""

    def __init__(self, tokens: Tokens, clock: Clock, gone: Callable[[str], None] | None = None) -> None:
        self._tokens = tokens
        self._clock = clock
        self._gone = gone
        self._held: dict[str, dict[object, _Ended]] = {}
        self._timer: Timer | None = None

    def hold(self, visa: Pass, ended: _Ended) -> Lease:
        """Until the lease is given back, `ended` is called once with the reason when the token is no more."""
        mark = object()
        self._held.setdefault(visa.token, {})[mark] = ended
        self._wait()
        return Lease(lambda: self._drop(visa.token, mark))

    def look(self) -> None:
        """End what has to end, now."""
        for id in [id for id in self._held if not self._tokens.is_valid(id)]:
            reason = "the token was revoked" if self._tokens.get(id) is None else "the token has expired"
            for ended in list(self._held.pop(id, {}).values()):
                ended(reason)
            if self._gone is not None:
                self._gone(id)

    def close(self) -> None:
        """Look no more."""
        self._held.clear()
        self._rest()

    def _wait(self) -> None:
        if self._timer is None and self._held:
            self._timer = self._clock.call_later(LOOKED_EVERY, self._tick)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        self.look()
        self._wait()

    def _drop(self, id: str, mark: object) -> None:
        held = self._held.get(id)
        if held is not None:
            held.pop(mark, None)
            if not held:
                del self._held[id]
        if not self._held:
            self._rest()
