"""The small endpoints beside `/acp`: logging in and out, tickets, health, metrics."""

from collections.abc import Callable

from accord.gateway.access.refusals import Refused
from accord.gateway.front.exchange import Exchange
from accord.gateway.front.premises import Premises
from accord.gateway.front.reply import answer
from accord.schema.codec import encode

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Api:
    """Each is one function of the exchange. They raise Refused."""

    def __init__(self, premises: Premises) -> None:
        self._premises = premises
        self.paths: dict[str, tuple[str, Callable[[Exchange], None]]] = {
            "/healthz": ("GET", self._health),
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._metrics),
            "/api/login": ("POST", self._log_in),
            "/api/logout": ("POST", self._log_out),
            "/api/ticket": ("POST", self._ticket),
        }

    def handle(self, exchange: Exchange) -> None:
        """One request for one of the paths."""
        verb, run = self.paths[exchange.request.path]
        allowed = (verb, "HEAD") if verb == "GET" else (verb,)
        if exchange.request.method not in allowed:
            raise Refused(405, f"Use {verb} here.", {"Allow": ", ".join((*allowed, "OPTIONS"))})
        run(exchange)

    def _health(self, exchange: Exchange) -> None:
        """No token and no host asked: a probe knows neither, and learns nothing."""
        if self._premises.stopping:
            answer(self._premises, exchange, 503, b"stopping\n", "text/plain; charset=utf-8")
        else:
            answer(self._premises, exchange, 200, b"ok\n", "text/plain; charset=utf-8")

    def _metrics(self, exchange: Exchange) -> None:
        self._premises.door.admit(exchange.request)
        answer(self._premises, exchange, 200, self._premises.metrics.text().encode(), _PROMETHEUS)

    def _log_in(self, exchange: Exchange) -> None:
        _, cookie = self._premises.door.log_in(exchange.request)
        answer(self._premises, exchange, 204, headers=[("Set-Cookie", cookie)])

    def _log_out(self, exchange: Exchange) -> None:
        cookie = self._premises.door.log_out(exchange.request)
        answer(self._premises, exchange, 204, headers=[("Set-Cookie", cookie)])

    def _ticket(self, exchange: Exchange) -> None:
        ticket = self._premises.door.ticket(exchange.request)
        answer(self._premises, exchange, 200, encode({"ticket": ticket}), "application/json")
