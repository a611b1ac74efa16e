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
            if self.breaks(17) and method == "_test/x":
                return {}
            raise ErrorResponse(-32601)
        if self.client is None and not (self.breaks(73) and method == "session/new"):
            raise ErrorResponse(-32602 if self.breaks(386) else -32600)
        if method == "sessions/list" and (not self.strict or self.breaks(390)):
            method = "session/list"
        if self.breaks(11) and method == "nope/nope":
            self.error(id, -32601)
        if method.startswith("proxy/") and self.breaks(373):
            return {}
        if method in self.lacks:
            if self.breaks(66):
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
            raise ErrorResponse(-32603 if self.breaks(15) and method == "nope/nope" else -32601)
        if params is None:
            if self.breaks(26) and method == "session/list":
                raise ErrorResponse(-32602)
            params = {}
        self.check_meta(method, params)
        return await served(params)

    def check_meta(self, method: str, params: Message) -> None:
        if self.breaks(38) and method == "session/prompt" and "_meta" in params:
            raise ErrorResponse(-32602)
        if self.breaks(40) and isinstance(params.get("_meta"), str):
            raise ErrorResponse(-32602)
        if self.breaks(32) and "zzz" in params:
            raise ErrorResponse(-32602)

    def handle_notification(self, method: str, params: Any) -> None:
        if method == "session/cancel":
            self.sessions.cancel(params)
        elif method == "$/cancel_request":
            if not self.turns.cancel_request(params.get("requestId")) and self.breaks(52):
                self.error(None, -32601)
        elif (self.breaks(19) and method == "_test/n") or (self.breaks(56) and method == "$/progress"):
            self.stop_answering()
        elif self.breaks(13) and method == "_x/ping":
            self.error(None, -32601)

    # -- handshake

    def initialize(self, params: Message) -> Message:
        version = params.get("protocolVersion")
        wrong = not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 65536
        if wrong and not (self.breaks(72) and version == "1"):
            raise ErrorResponse(-32602)
        if self.breaks(63) and version != 1:
            raise ErrorResponse(-32602)
        if self.breaks(74) and "clientCapabilities" not in params:
            raise ErrorResponse(-32602)
        capabilities = params.get("clientCapabilities")
        if self.breaks(70) and capabilities is False:
            raise ErrorResponse(-32602)
        self.client = capabilities if isinstance(capabilities, dict) else {}
        self.no_capabilities = not isinstance(capabilities, dict)
        if self.breaks(1):
            self.send_raw(b"model agent 1.0 starting")
        if self.breaks(44):
            self.notify("model/hello", {})
        if self.breaks(360):
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
            if self.breaks(85):
                return {}
            raise ErrorResponse(-32603 if self.breaks(387) else -32602)
        self.set_signed_in(not self.breaks(82))
        return {}

    async def logout(self, params: Message) -> Any:
        if not self.breaks(87):
            self.set_signed_in(False)
        return {}

    def set_signed_in(self, signed: bool) -> None:
        if signed != self.signed_in or self.breaks(361):
            self.signed_in = signed
            self.was_signed_in = self.was_signed_in or signed
            if not self.breaks(360):
                self.notify("auth/status_update", self.status())
            if self.breaks(361):
                self.notify("auth/status_update", self.status())

    def status(self) -> Message:
        return {"state": "authenticated" if self.signed_in else "unauthenticated"}

    async def auth_status(self, params: Message) -> Any:
        if self.breaks(358):
            raise ErrorResponse(-32000)
        return self.status()

    def require_login(self) -> None:
        if not self.signed_in and self.client is not None:
            raise ErrorResponse(-32603 if self.breaks(83) and not self.was_signed_in else -32000)

    # -- providers

    async def list_providers(self, params: Message) -> Any:
        return {
            "providers": [
                {"providerId": id, "supported": ["openai"], "required": id == "main", "current": current}
                for id, current in self.providers.items()
            ]
        }

    async def set_provider(self, params: Message) -> Any:
        if params["providerId"] not in self.providers and not self.breaks(299):
            raise ErrorResponse(-32602)
        self.providers[params["providerId"]] = {"apiType": params["apiType"], "baseUrl": params["baseUrl"]}
        return {}

    async def disable_provider(self, params: Message) -> Any:
        id = params["providerId"]
        if id == "main" and not self.breaks(297):
            raise ErrorResponse(-32602)
        if id not in self.providers:
            if self.breaks(298):
                raise ErrorResponse(-32602)
        elif not self.breaks(296):
            self.providers[id] = None
        return {}
