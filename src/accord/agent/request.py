"""One request of the client while a handler of the application serves it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from accord.wire.envelope import RequestId
from accord.wire.routes import Call

from .client import Client
from .peer import Peer, run_quietly

if TYPE_CHECKING:
    from .connection import AgentConnection
    from .elicitation import ElicitationAnswer, Form, Scope, UrlAnswer
    from .session import AgentSession


class ClientRequest:
    """What a handler may want to know and do beside the parameters."""

    def __init__(
        self, peer: Peer, connection: "AgentConnection", call: Call, session: "AgentSession | None"
    ) -> None:
        self.connection = connection
        self.session = session
        """The open session that the request names, or the one that it opens."""
        self.client: Client = connection.client
        self._peer = peer
        self._call = call

    @property
    def id(self) -> RequestId:
        """The id of the request on the wire."""
        return self._call.id

    @property
    def method(self) -> str:
        """The method's name."""
        return self._call.method

    def after_answer(self, callback: Callable[[], object]) -> None:
        """Run something right behind the answer, before anything else can be sent."""
        self._call.after_answer(lambda: run_quietly(callback))

    async def elicit(
        self, message: str, form: "Form", *, timeout: float | None = None
    ) -> "ElicitationAnswer":
        """Ask the user by a form, as part of this request (while signing in, for example). Never for secrets."""
        from .elicitation import ask_form

        scope: Scope = {"request_id": self.id}
        return await ask_form(self._peer, self.client.can_show_forms, message, form, scope, timeout)

    async def elicit_url(self, message: str, url: str, *, timeout: float | None = None) -> "UrlAnswer":
        """Ask the user to open a web page, as part of this request."""
        from .elicitation import ask_url

        scope: Scope = {"request_id": self.id}
        return await ask_url(self._peer, self.client.can_open_urls, message, url, scope, timeout)
