"""Which request goes where: the built-in behaviour, what the application took over, extensions, and other names of both."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, MsgspecError, Raw, defstruct
from msgspec.json import Decoder

from accord.agent.builtin_methods import BuiltinMethods, Handshake, OptionMethods
from accord.agent.decorators import AgentHandlers
from accord.errors import InvalidParams, InvalidRequest
from accord.schema.codec import NotJson, parse_json
from accord.schema.message_reader import MessageReader
from accord.schema.methods import Method, notification, served_by
from accord.wire.calls import IncomingCall, Route

if TYPE_CHECKING:
    from accord.agent.app import AgentConnection

Run = Callable[..., Any]

FRAMED: Final = frozenset(
    (
        "initialize",
        "session/new",
        "session/load",
        "session/resume",
        "session/fork",
        "session/prompt",
        "session/close",
        "session/list",
        "session/delete",
        "session/archive",
        "auth/status",
    )
)
"""Methods whose built-in behaviour stays around what the application does when it takes them over."""


class RequestRouter(Mapping[str, Route]):
    """The requests an agent serves. Before `initialize` there is only that one; everything else is out of order."""

    def __init__(self, routes: Mapping[str, Route], handshake: Handshake) -> None:
        self._routes = routes
        self._handshake = handshake

    def __getitem__(self, method: str) -> Route:
        if self._handshake.done or method == "initialize":
            return self._routes[method]
        return _TOO_EARLY

    def __iter__(self) -> Iterator[str]:
        return iter(self._routes)

    def __len__(self) -> int:
        return len(self._routes)


def request_routes(
    handlers: AgentHandlers,
    handshake: Handshake,
    service: BuiltinMethods,
    reader: MessageReader,
    notifications: Mapping[str, Route],
) -> dict[str, Route]:
    """A route for every request that is served."""
    choices = OptionMethods(handlers, service)
    built_in: dict[str, Run] = {
        "initialize": handshake.initialize,
        "authenticate": handshake.authenticate,
        "logout": handshake.logout,
        "session/new": service.open,
        "session/load": service.open,
        "session/resume": service.open,
        "session/fork": service.open,
        "session/close": service.close,
        "session/list": service.list,
        "session/prompt": service.prompt,
        "session/delete": service.delete,
        "session/archive": service.archive,
        "session/set_mode": choices.set_mode,
        "session/set_config_option": choices.set_config_option,
        "auth/status": handshake.auth_status,
    }
    routes: dict[str, Route] = {}
    methods = {method.name: method for method in served_by("agent") if method.kind == "request"}
    for name, method in methods.items():
        if name in handlers.served:
            taken = handlers.taken.get(name)
            run = built_in[name] if taken is None or name in FRAMED else _taken(taken, service)
            routes[name] = Route(run, reader.params_reader(method), _key(method))
    for alias in reader.aliases("agent", "request"):
        if alias.method in routes:
            read = reader.params_reader(methods[alias.method], alias)
            routes[alias.sent] = Route(routes[alias.method].run, read, routes[alias.method].key)
        elif alias.method in notifications and (method := notification("agent", alias.method)) is not None:
            run = _answered(notifications[alias.method].run)
            routes[alias.sent] = Route(run, reader.params_reader(method, alias), _key(method))
    for name, function in handlers.taken.items():
        if name not in methods:
            routes[name] = Route(_taken(function, service), _plain, _connection)
    return routes


def notification_routes(
    handlers: AgentHandlers, connection: "AgentConnection", service: BuiltinMethods, reader: MessageReader
) -> dict[str, Route]:
    """A route for every notification that is heard."""
    routes: dict[str, Route] = {}
    for name, own in (("session/cancel", service.cancel), ("mcp/message", service.mcp_message)):
        method = notification("agent", name)
        assert method is not None
        run = _heard(own, handlers.notifications.get(name), connection, service)
        routes[name] = Route(run, reader.params_reader(method), _key(method), urgent=True)
        for alias in reader.aliases("agent", "notification"):
            if alias.method == name:
                routes[alias.sent] = Route(
                    run, reader.params_reader(method, alias), _key(method), urgent=True
                )
    for name, function in handlers.notifications.items():
        if name not in routes:
            routes[name] = Route(_heard(None, function, connection, service), _plain, _connection)
    return routes


def refusing(members: Mapping[str, str], routes: Mapping[str, Route]) -> dict[str, Route]:
    """The same routes, but for requests whose params hold one of these members: they are refused, with the reason."""
    fields = {f"member{number}": name for number, name in enumerate(members)}
    held = Decoder(defstruct("Held", [(field, Raw, UNSET) for field in fields], rename=fields))

    def refused(read: Callable[[Raw | None], Any]) -> Callable[[Raw | None], Any]:
        def look(raw: Raw | None) -> Any:
            if raw is not None:
                try:
                    found = held.decode(raw)
                except (MsgspecError, UnicodeDecodeError):
                    return read(raw)  # no object, or no JSON: the reader says so
                for field, name in fields.items():
                    if getattr(found, field) is not UNSET:
                        raise InvalidParams(f"{name}: {members[name]}")
            return read(raw)

        return look

    return {
        method: Route(route.run, refused(route.read), route.key, route.urgent, route.read_frame)
        for method, route in routes.items()
    }


def _key(method: Method) -> Callable[[Any], Hashable | None]:
    return _session if method.in_session else _connection


def _session(params: Any) -> Hashable:
    return params.session_id


def _connection(params: Any) -> None:
    return None


def _refuse(params: Any, call: IncomingCall) -> None:
    raise InvalidRequest("Not initialized")


_TOO_EARLY = Route(_refuse, lambda raw: None, _connection)


def _plain(raw: Raw | None) -> Any:
    try:
        return {} if raw is None else parse_json(raw)
    except NotJson as error:
        raise InvalidParams(str(error)) from None


def _taken(function: Run, service: BuiltinMethods) -> Run:
    def run(params: Any, call: IncomingCall) -> Any:
        session = service.sessions.get(getattr(params, "session_id", ""))
        return service.begin(function, params, service.request(call, session))

    async def run_later(params: Any, call: IncomingCall) -> Any:
        return await run(params, call)

    # A coroutine is not even made before its turn: a request may be given up until then.
    return run_later if iscoroutinefunction(function) else run


def _answered(notified: Run) -> Run:
    """A notification that comes with an id is acted on, and answered."""

    def run(params: Any, call: IncomingCall) -> dict[str, Any]:
        notified(params)
        return {}

    return run


def _heard(
    own: Run | None, function: Run | None, connection: "AgentConnection", service: BuiltinMethods
) -> Run:
    def run(params: Any) -> Any:
        if own is not None:
            own(params)
        result = None if function is None else service.begin(function, params, connection)
        return result if hasattr(result, "__await__") else None

    return run
