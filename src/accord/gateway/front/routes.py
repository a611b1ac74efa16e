"""Which endpoint a request goes to, and the one place where a failure of an endpoint becomes an answer."""

import logging

from accord.gateway.access.limits import LimitReached
from accord.gateway.access.refusals import Refused
from accord.gateway.front.acp import Endpoint
from accord.gateway.front.api import Api
from accord.gateway.front.exchange import Exchange
from accord.gateway.front.page import Page
from accord.gateway.front.premises import Premises
from accord.gateway.front.reply import answer, limited, refuse

_log = logging.getLogger("accord.gateway.front")


class Routes:
    """All paths of the gateway."""

    def __init__(self, premises: Premises) -> None:
        self._premises = premises
        self._acp = Endpoint(premises)
        self._api = Api(premises)
        self._page = Page(premises, premises.config.page)

    def handle(self, exchange: Exchange) -> None:
        """One request whose head is there."""
        premises = self._premises
        try:
            self._route(exchange)
        except Refused as refusal:
            refuse(premises, exchange, refusal)
        except LimitReached as error:
            refuse(premises, exchange, limited(error))
        except Exception as error:  # noqa: BLE001 - one broken request must not take the others' socket with it
            _log.error(
                "%s %s failed: %s", exchange.request.method, exchange.request.path[:64], type(error).__name__
            )
            refuse(premises, exchange, Refused(500, "The gateway failed at this request; its log says more."))

    def _route(self, exchange: Exchange) -> None:
        path = exchange.request.path
        if exchange.request.method == "OPTIONS":
            self._premises.door.check(exchange.request)
            answer(self._premises, exchange, 204)
        elif path == "/acp":
            self._acp.handle(exchange, None)
        elif path.startswith("/acp/"):
            self._acp.handle(exchange, path.removeprefix("/acp/"))
        elif path in self._api.paths:
            self._api.handle(exchange)
        else:
            self._page.handle(exchange)
