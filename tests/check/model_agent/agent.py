"""The model agent: an agent in raw JSON that keeps every rule, or breaks exactly one, given by its number.

Turns are in `turns.py`, sessions in `sessions.py`, the rest is here.
"""

from typing import Any

from tests.check.model_agent.connection import Connection, ErrorResponse, FrameReceiver
from tests.check.model_agent.mutations import MUTATIONS
from tests.check.model_agent.sessions import Sessions
from tests.check.model_agent.state import Message, Store
from tests.check.model_agent.turns import Turns

from accord.wire.transport import Transport

SESSION_CAPABILITIES = (
    *("list", "delete", "resume", "close", "fork", "archive", "status", "title", "additionalDirectories"),
)


class ModelAgent(Connection):
    """One connection. `lacks` names the capabilities that the agent does not have."""

    def __init__(
        self,
        transport: Transport,
        broken: Any = None,
        *,
        store: Store | None = None,
        start_folder: str = "/",
        strict: bool = False,
        lacks: tuple[str, ...] = (),
    ) -> None:
        super().__init__(transport, broken, MUTATIONS.get(broken))
        self.receiver = FrameReceiver(self)
        self.store = Store() if store is None else store
        self.start_folder = start_folder
        self.strict = strict
        self.lacks = lacks
        self.client: Any = None
        self.signed_in = self.was_signed_in = False
        self.providers: dict[str, Any] = {
            "main": {"apiType": "openai", "baseUrl": "https://example.com"},
            "other": None,
        }
        self.sessions = Sessions(self)
        self.turns = Turns(self)

    def start(self) -> None:
        self._transport.start(self.receiver)

    def offers(self, *path: str) -> bool:
        """Whether the client has a capability."""
        value: Any = self.client
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value is True or isinstance(value, dict)

    def handle_second_answer(self, message: Message) -> None:
        if self.turns.permission_path is not None:
            self.turns.permission_path.write_text("changed my mind")

    async def call(self, method: str, params: Any, id: Any) -> Any:
        if method == "initialize":
            return self.initialize(params)
        if method.startswith("_"):
            if self.breaks("framing.agent-unknown-extension") and method == "_test/x":
                return {}
            raise ErrorResponse(-32601)
        if self.client is None and not (
            self.breaks("initialize.refuses-earlier-requests") and method == "session/new"
        ):
            raise ErrorResponse(-32602 if self.breaks("accord.request-before-initialize") else -32600)
        if method == "sessions/list" and (not self.strict or self.breaks("accord.agent-strict-mode")):
            method = "session/list"
        if self.breaks("framing.agent-one-answer") and method == "nope/nope":
            self.error(id, -32601)
        if method.startswith("proxy/") and self.breaks("proxy.refused-by-agents"):
            return {}
        if method in self.lacks:
            if self.breaks("initialize.unadvertised-methods"):
                return {"status": "saved"}
            raise ErrorResponse(-32601)
        served = {
            "authenticate": self.authenticate,
            "logout": self.logout,
            "auth/status": self.auth_status,
            "providers/list": self.list_providers,
            "providers/set": self.set_provider,
            "providers/disable": self.disable_provider,
            **self.sessions.served,
        }.get(method)
        if served is None:
            raise ErrorResponse(
                -32603 if self.breaks("framing.agent-unknown-method") and method == "nope/nope" else -32601
            )
        if params is None:
            if self.breaks("framing.absent-params") and method == "session/list":
                raise ErrorResponse(-32602)
            params = {}
        self.check_meta(method, params)
        return await served(params)

    def check_meta(self, method: str, params: Message) -> None:
        if self.breaks("extension.agent-accepts-meta") and method == "session/prompt" and "_meta" in params:
            raise ErrorResponse(-32602)
        if self.breaks("extension.agent-malformed-meta") and isinstance(params.get("_meta"), str):
            raise ErrorResponse(-32602)
        if self.breaks("framing.agent-extra-members") and "zzz" in params:
            raise ErrorResponse(-32602)

    def handle_notification(self, method: str, params: Any) -> None:
        if method == "session/cancel":
            self.sessions.cancel(params)
        elif method == "$/cancel_request":
            if not self.turns.cancel_request(params.get("requestId")) and self.breaks(
                "cancel-request.agent-unknown-id"
            ):
                self.error(None, -32601)
        elif (self.breaks("framing.agent-unknown-notification") and method == "_test/n") or (
            self.breaks("cancel-request.agent-other-notification") and method == "$/progress"
        ):
            self.stop_answering()
        elif self.breaks("framing.agent-silent-on-notification") and method == "_x/ping":
            self.error(None, -32601)

    # -- handshake

    def initialize(self, params: Message) -> Message:
        version = params.get("protocolVersion")
        wrong = not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 65536
        if wrong and not (self.breaks("initialize.invalid-version") and version == "1"):
            raise ErrorResponse(-32602)
        if self.breaks("initialize.version-offered") and version != 1:
            raise ErrorResponse(-32602)
        if self.breaks("initialize.minimal-client") and "clientCapabilities" not in params:
            raise ErrorResponse(-32602)
        capabilities = params.get("clientCapabilities")
        if self.breaks("initialize.agent-malformed-capability") and capabilities is False:
            raise ErrorResponse(-32602)
        self.client = capabilities if isinstance(capabilities, dict) else {}
        self.no_capabilities = not isinstance(capabilities, dict)
        if self.breaks("framing.agent-only-messages"):
            self.send_raw(b"model agent 1.0 starting")
        if self.breaks("extension.agent-known-methods"):
            self.notify("model/hello", {})
        if self.breaks("auth-status.update-advertised"):
            self.notify("auth/status_update", {"state": "unauthenticated"})
        sessions: Message = {name: {} for name in SESSION_CAPABILITIES if f"session/{name}" not in self.lacks}
        sessions["systemPrompt"] = {"mode": {"override": {}}}
        methods: list[Message] = [{"id": "key", "name": "A key"}]
        if self.offers("auth", "terminal"):
            methods.append({"type": "terminal", "id": "terminal", "name": "A terminal", "args": ["login"]})
        return {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "mcpCapabilities": {"acp": True},
                "sessionCapabilities": sessions,
                "auth": {"logout": {}, "status": {}},
                "providers": {},
                "_meta": {"model": {"extensions": ["_model/ready"]}},
            },
            "authMethods": methods,
            "agentInfo": {"name": "model", "version": "1.0"},
        }

    # -- login

    async def authenticate(self, params: Message) -> Any:
        if params.get("methodId") != "key":
            if self.breaks("auth.unknown-method"):
                return {}
            raise ErrorResponse(-32603 if self.breaks("accord.unknown-value") else -32602)
        self.set_signed_in(not self.breaks("auth.authenticate"))
        return {}

    async def logout(self, params: Message) -> Any:
        if not self.breaks("auth.logout-requires-login"):
            self.set_signed_in(False)
        return {}

    def set_signed_in(self, signed: bool) -> None:
        if signed != self.signed_in or self.breaks("auth-status.update-only-changes"):
            self.signed_in = signed
            self.was_signed_in = self.was_signed_in or signed
            if not self.breaks("auth-status.update-advertised"):
                self.notify("auth/status_update", self.status())
            if self.breaks("auth-status.update-only-changes"):
                self.notify("auth/status_update", self.status())

    def status(self) -> Message:
        return {"state": "authenticated" if self.signed_in else "unauthenticated"}

    async def auth_status(self, params: Message) -> Any:
        if self.breaks("auth-status.changes-nothing"):
            raise ErrorResponse(-32000)
        return self.status()

    def require_login(self) -> None:
        if not self.signed_in and self.client is not None:
            raise ErrorResponse(
                -32603 if self.breaks("auth.required-error") and not self.was_signed_in else -32000
            )

    # -- providers

    async def list_providers(self, params: Message) -> Any:
        return {
            "providers": [
                {"providerId": id, "supported": ["openai"], "required": id == "main", "current": current}
                for id, current in self.providers.items()
            ]
        }

    async def set_provider(self, params: Message) -> Any:
        if params["providerId"] not in self.providers and not self.breaks("provider.unknown-refused"):
            raise ErrorResponse(-32602)
        self.providers[params["providerId"]] = {"apiType": params["apiType"], "baseUrl": params["baseUrl"]}
        return {}

    async def disable_provider(self, params: Message) -> Any:
        id = params["providerId"]
        if id == "main" and not self.breaks("provider.required-stays"):
            raise ErrorResponse(-32602)
        if id not in self.providers:
            if self.breaks("provider.unknown-disabled"):
                raise ErrorResponse(-32602)
        elif not self.breaks("provider.disabled-not-current"):
            self.providers[id] = None
        return {}
