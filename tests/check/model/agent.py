"""The model agent: a whole agent in raw JSON that keeps every rule, or breaks exactly one, told by its number.

What it does in a turn is in `turns.py`, what it does with sessions in `sessions.py`; this file is the rest.
"""

from typing import Any

from tests.check.model.mutations import MUTATIONS
from tests.check.model.sessions import Sessions
from tests.check.model.state import Message, Store
from tests.check.model.turns import Turns
from tests.check.model.wire import Ear, Refusal, Wire

from accord.wire.transport import Transport

SESSION_CAPABILITIES = (
    *("list", "delete", "resume", "close", "fork", "archive", "status", "title", "additionalDirectories"),
)


class ModelAgent(Wire):
    """One connection. `lacks` names capabilities that it does not have."""

    def __init__(
        self,
        transport: Transport,
        broken: Any = None,
        *,
        store: Store | None = None,
        spawn: str = "/",
        strict: bool = False,
        lacks: tuple[str, ...] = (),
    ) -> None:
        super().__init__(transport, broken, MUTATIONS.get(broken))
        self.ear = Ear(self)
        self.store = Store() if store is None else store
        self.where = spawn
        self.strict = strict
        self.lacks = lacks
        self.client: Any = None
        self.signed = self.was_signed = False
        self.providers: dict[str, Any] = {
            "main": {"apiType": "openai", "baseUrl": "https://example.com"},
            "other": None,
        }
        self.sessions = Sessions(self)
        self.turns = Turns(self)

    def start(self) -> None:
        self._transport.start(self.ear)

    def offers(self, *path: str) -> bool:
        """Whether the client has a capability."""
        value: Any = self.client
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value is True or isinstance(value, dict)

    def again(self, message: Message) -> None:
        if self.turns.guarded is not None:
            self.turns.guarded.write_text("changed my mind")

    async def call(self, method: str, params: Any, id: Any) -> Any:
        if method == "initialize":
            return self.initialize(params)
        if method.startswith("_"):
            if self.breaks(17) and method == "_test/x":
                return {}
            raise Refusal(-32601)
        if self.client is None and not (self.breaks(73) and method == "session/new"):
            raise Refusal(-32602 if self.breaks(386) else -32600)
        if method == "sessions/list" and (not self.strict or self.breaks(390)):
            method = "session/list"
        if self.breaks(11) and method == "nope/nope":
            self.error(id, -32601)
        if method.startswith("proxy/") and self.breaks(373):
            return {}
        if method in self.lacks:
            if self.breaks(66):
                return {"status": "saved"}
            raise Refusal(-32601)
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
            raise Refusal(-32603 if self.breaks(15) and method == "nope/nope" else -32601)
        if params is None:
            if self.breaks(26) and method == "session/list":
                raise Refusal(-32602)
            params = {}
        self.look_at_meta(method, params)
        return await served(params)

    def look_at_meta(self, method: str, params: Message) -> None:
        if self.breaks(38) and method == "session/prompt" and "_meta" in params:
            raise Refusal(-32602)
        if self.breaks(40) and isinstance(params.get("_meta"), str):
            raise Refusal(-32602)
        if self.breaks(32) and "zzz" in params:
            raise Refusal(-32602)

    def hear(self, method: str, params: Any) -> None:
        if method == "session/cancel":
            self.sessions.cancel(params)
        elif method == "$/cancel_request":
            if not self.turns.cancel_request(params.get("requestId")) and self.breaks(52):
                self.error(None, -32601)
        elif (self.breaks(19) and method == "_test/n") or (self.breaks(56) and method == "$/progress"):
            self.die()
        elif self.breaks(13) and method == "_x/ping":
            self.error(None, -32601)

    # -- the handshake

    def initialize(self, params: Message) -> Message:
        version = params.get("protocolVersion")
        wrong = not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 65536
        if wrong and not (self.breaks(72) and version == "1"):
            raise Refusal(-32602)
        if self.breaks(63) and version != 1:
            raise Refusal(-32602)
        if self.breaks(74) and "clientCapabilities" not in params:
            raise Refusal(-32602)
        capabilities = params.get("clientCapabilities")
        if self.breaks(70) and capabilities is False:
            raise Refusal(-32602)
        self.client = capabilities if isinstance(capabilities, dict) else {}
        self.none_told = not isinstance(capabilities, dict)
        if self.breaks(1):
            self.raw(b"model agent 1.0 starting")
        if self.breaks(44):
            self.notify("model/hello", {})
        if self.breaks(360):
            self.notify("auth/status_update", {"state": "unauthenticated"})
        sessions: Message = {name: {} for name in SESSION_CAPABILITIES if f"session/{name}" not in self.lacks}
        sessions["systemPrompt"] = {"mode": {"override": {}}}
        methods = [{"id": "key", "name": "A key"}]
        if self.offers("auth", "terminal"):
            methods.append({"type": "terminal", "id": "terminal", "name": "A terminal", "args": ["login"]})  # type: ignore[dict-item]
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

    # -- signing in

    async def authenticate(self, params: Message) -> Any:
        if params.get("methodId") != "key":
            if self.breaks(85):
                return {}
            raise Refusal(-32603 if self.breaks(387) else -32602)
        self.sign(not self.breaks(82))
        return {}

    async def logout(self, params: Message) -> Any:
        if not self.breaks(87):
            self.sign(False)
        return {}

    def sign(self, signed: bool) -> None:
        if signed != self.signed or self.breaks(361):
            self.signed = signed
            self.was_signed = self.was_signed or signed
            if not self.breaks(360):
                self.notify("auth/status_update", self.status())
            if self.breaks(361):
                self.notify("auth/status_update", self.status())

    def status(self) -> Message:
        return {"state": "authenticated" if self.signed else "unauthenticated"}

    async def auth_status(self, params: Message) -> Any:
        if self.breaks(358):
            raise Refusal(-32000)
        return self.status()

    def must_be_signed(self) -> None:
        if not self.signed and self.client is not None:
            raise Refusal(-32603 if self.breaks(83) and not self.was_signed else -32000)

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
            raise Refusal(-32602)
        self.providers[params["providerId"]] = {"apiType": params["apiType"], "baseUrl": params["baseUrl"]}
        return {}

    async def disable_provider(self, params: Message) -> Any:
        id = params["providerId"]
        if id == "main" and not self.breaks(297):
            raise Refusal(-32602)
        if id not in self.providers:
            if self.breaks(298):
                raise Refusal(-32602)
        elif not self.breaks(296):
            self.providers[id] = None
        return {}
