"""Routes from method names to handlers: built-in behavior, overrides, extensions and aliases.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from msgspec import UNSET, MsgspecError, Raw, defstruct
from msgspec.json import Decoder

from accord.agent.builtin_methods import BuiltinMethods, InitializeMethods
from accord.agent.decorators import AgentHandlers
from accord.errors import InvalidParams, InvalidRequest
from accord.schema.codec import NotJson, parse_json
from accord.schema.message_reader import MessageReader
from accord.schema.methods import Method, notification, served_by
from accord.wire.calls import IncomingCall, Route

if TYPE_CHECKING:
    from accord.agent.app import AgentConnection

RouteFunction: TypeAlias = Callable[..., Any]

_CO_COROUTINE: Final = 0x80
"""`inspect.CO_COROUTINE`."""

WRAPPED: Final[frozenset[str]] = frozenset((
    "initialize", "session/new", "session/load", "session/resume", "session/fork", "session/prompt",
    "session/close", "session/list", "session/delete", "session/archive", "auth/status",
))  # fmt: skip
"""Methods whose built-in behavior still runs around an override."""


class RequestRouter(Mapping[str, Route]):
    """The routes of requests. Until `initialize`, every other request gets an error."""

    def __init__(self, routes: Mapping[str, Route], handshake: InitializeMethods) -> None:
        self._routes = routes
        self._handshake = handshake

    def __getitem__(self, method: str) -> Route:
        if self._handshake.initialized or method == "initialize":
            return self._routes[method]
        return _NOT_INITIALIZED

    def __iter__(self) -> Iterator[str]:
        return iter(self._routes)

    def __len__(self) -> int:
        return len(self._routes)


def request_routes(
    handlers: AgentHandlers,
    handshake: InitializeMethods,
    methods: BuiltinMethods,
    reader: MessageReader,
    notifications: Mapping[str, Route],
) -> dict[str, Route]:
    """Return a route for every request that the agent serves."""

    def change_option(params: Any, call: IncomingCall) -> Awaitable[Any]:
        from accord.agent.option_methods import OptionMethods

        return OptionMethods(handlers, methods).change(params, call)

    built_in: dict[str, RouteFunction] = {
        "initialize": handshake.initialize,
        "authenticate": handshake.authenticate,
        "logout": handshake.logout,
        "session/new": methods.open,
        "session/load": methods.open,
        "session/resume": methods.open,
        "session/fork": methods.open,
        "session/close": methods.close,
        "session/list": methods.list,
        "session/prompt": methods.prompt,
        "session/delete": methods.delete,
        "session/archive": methods.archive,
        "session/set_mode": change_option,
        "session/set_config_option": change_option,
        "auth/status": handshake.auth_status,
    }
    routes: dict[str, Route] = {}
    requests = {method.name: method for method in served_by("agent") if method.kind == "request"}
    for name, method in requests.items():
        if name in handlers.served:
            override = handlers.overrides.get(name)
            if override is None or name in WRAPPED:
                run = built_in[name]
            else:
                run = _override_route(override, methods)
            routes[name] = Route(run, reader.params_reader(method), _route_key(method))
    if methods.serves_version_2:
        _add_cancel_routes(routes, methods)
    for alias in reader.aliases("agent", "request"):
        if alias.method in routes:
            read = reader.params_reader(requests[alias.method], alias)
            routes[alias.sent] = Route(routes[alias.method].run, read, routes[alias.method].key)
        elif alias.method in notifications and (method := notification("agent", alias.method)) is not None:
            run = _notification_as_request(notifications[alias.method].run)
            routes[alias.sent] = Route(run, reader.params_reader(method, alias), _route_key(method))
    for name, function in handlers.overrides.items():
        if name not in requests:
            routes[name] = Route(_override_route(function, methods), _plain_params, _extension_key)
    return routes


def _add_cancel_routes(routes: dict[str, Route], methods: BuiltinMethods) -> None:
    """Serve what the translation of version 2 asks to stop a single tool call or terminal."""

    def run_for(member: str) -> RouteFunction:
        def run(params: Any, call: IncomingCall) -> Any:
            from accord.agent.shown_work import cancel_item

            return cancel_item(methods, member, params)

        return run

    for kind, member in (("tool_call", "toolCallId"), ("terminal", "terminalId")):
        routes[f"_accord/{kind}/cancel"] = Route(run_for(member), _plain_params, _no_key)


def notification_routes(
    handlers: AgentHandlers, connection: "AgentConnection", methods: BuiltinMethods, reader: MessageReader
) -> dict[str, Route]:
    """Return a route for every notification that the agent handles."""
    routes: dict[str, Route] = {}
    built_in = (("session/cancel", methods.cancel), ("mcp/message", methods.mcp_message))
    for name, built_in_function in built_in:
        method = notification("agent", name)
        assert method is not None
        run = _notification_route(built_in_function, handlers.notifications.get(name), connection, methods)
        routes[name] = Route(run, reader.params_reader(method), _route_key(method), urgent=True)
        for alias in reader.aliases("agent", "notification"):
            if alias.method == name:
                routes[alias.sent] = Route(
                    run, reader.params_reader(method, alias), _route_key(method), urgent=True
                )
    for name, function in handlers.notifications.items():
        if name not in routes:
            routes[name] = Route(
                _notification_route(None, function, connection, methods), _plain_params, _no_key
            )
    return routes


def refuse_members(members: Mapping[str, str], routes: Mapping[str, Route]) -> dict[str, Route]:
    """Return routes that refuse params with one of these members, with the reason."""
    fields = {f"member{number}": name for number, name in enumerate(members)}
    decoder = Decoder(defstruct("RefusedMembers", [(field, Raw, UNSET) for field in fields], rename=fields))

    def check_first(read: Callable[[Raw | None], Any]) -> Callable[[Raw | None], Any]:
        def read_checked(raw: Raw | None) -> Any:
            if raw is not None:
                try:
                    found = decoder.decode(raw)
                except (MsgspecError, UnicodeDecodeError):
                    return read(raw)  # not a JSON object: `read` raises the error
                for field, name in fields.items():
                    if getattr(found, field) is not UNSET:
                        raise InvalidParams(f"{name}: {members[name]}")
            return read(raw)

        return read_checked

    return {
        method: Route(route.run, check_first(route.read), route.key, route.urgent)
        for method, route in routes.items()
    }


def _route_key(method: Method) -> Callable[[Any], Hashable | None]:
    return _session_key if method.in_session else _no_key


def _session_key(params: Any) -> Hashable:
    return params.session_id


def _extension_key(params: Any) -> Hashable | None:
    """The session that an extension names: its prompts sent before the request have begun by then."""
    session_id = cast(dict[str, Any], params).get("sessionId") if isinstance(params, dict) else None
    return session_id if isinstance(session_id, str) else None


def _no_key(params: Any) -> None:
    return None


def _refuse_uninitialized(params: Any, call: IncomingCall) -> None:
    raise InvalidRequest("Not initialized")


_NOT_INITIALIZED: Final = Route(_refuse_uninitialized, lambda raw: None, _no_key)


def _plain_params(raw: Raw | None) -> Any:
    try:
        return {} if raw is None else parse_json(raw)
    except NotJson as error:
        raise InvalidParams(str(error)) from None


def _override_route(function: RouteFunction, methods: BuiltinMethods) -> RouteFunction:
    def run(params: Any, call: IncomingCall) -> Any:
        session = methods.sessions.get(getattr(params, "session_id", ""))
        return methods.start_handler(function, params, methods.client_request(call, session))

    async def run_later(params: Any, call: IncomingCall) -> Any:
        return await run(params, call)

    # Create the coroutine only when it runs: until then the request may be canceled.
    return run_later if _is_async(function) else run


def _is_async(function: RouteFunction) -> bool:
    code = getattr(function, "__code__", None)
    if code is not None:
        return bool(code.co_flags & _CO_COROUTINE)
    from inspect import iscoroutinefunction  # too slow for the start, and few callables have no code

    return iscoroutinefunction(function)


def _notification_as_request(notified: RouteFunction) -> RouteFunction:
    """Handle a notification that was sent with an id: run it, then answer with an empty object."""

    def run(params: Any, call: IncomingCall) -> dict[str, Any]:
        notified(params)
        return {}

    return run


def _notification_route(
    built_in: RouteFunction | None,
    function: RouteFunction | None,
    connection: "AgentConnection",
    methods: BuiltinMethods,
) -> RouteFunction:
    def run(params: Any) -> Any:
        if built_in is not None:
            built_in(params)
        result = None if function is None else methods.start_handler(function, params, connection)
        return result if hasattr(result, "__await__") else None

    return run
