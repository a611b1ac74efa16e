"""The gateway process of `accord serve`: addresses, agents, the log, the first lines on stdout, shutdown.

The log contains no secrets and no escape sequences.

Imported on first use: it loads accord.gateway.
"""

import asyncio
import logging
import os
import re
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO
from urllib.parse import urlsplit

import msgspec

from accord.cli.agent_choice import choose_agent
from accord.cli.command_parser import is_terminal, signal_handlers
from accord.cli.serve_command import PORT, PORTS_TRIED, ServeArguments, ServeSettings
from accord.cli.serve_subcommands import print_first_token, print_start
from accord.errors import UsageError
from accord.frontend.agent_config import ConfiguredAgent, ConfiguredAgents, ask, leave_out, load, once
from accord.frontend.sign_in import withheld_hints
from accord.gateway.access.access_tokens import TokenStore, describe_rights, new_token, without_token
from accord.gateway.access.request_origin import Origins, Proxies, is_loopback, machine_address
from accord.gateway.gateway_service import GatewayPlan, GatewayService, run_gateway
from accord.gateway.hosted_agent import AgentSource
from accord.gateway.http import ServerConfig, tls_context
from accord.gateway.http.http_routes import PAGE_FOLDER
from accord.gateway.notifications.notification_settings import NotificationSettings, shown_url
from accord.gateway.notifications.notification_targets import webhook_secret, webhook_secret_file
from accord.gateway.running_gateways import announce, list_running_gateways
from accord.private_files import private_opener
from accord.safe_text import clean_line
from accord.wire.transport import DEFAULT_LIMIT, Transport

if TYPE_CHECKING:
    from accord.cluster.cluster_node import ClusterNode

LOG: Final = logging.getLogger("accord.gateway")
_TICKET: Final = re.compile(r"(ticket=)[A-Za-z0-9_-]+")
_COOKIE: Final = re.compile(r"(accord=)[A-Za-z0-9_-]{16,}")
_MAX_LOG_LINE: Final = 2000
_HAND_OVER_SECONDS: Final = 5.0


def serve(arguments: ServeArguments) -> int:
    """Serve until a signal stops the gateway. Raises UsageError, StoreError."""
    plan = gateway_plan(arguments)
    with logging_to(arguments.log, arguments.log_format, arguments.log_level):
        return asyncio.run(_ServeRun(arguments, plan).run())


def gateway_plan(arguments: ServeArguments) -> GatewayPlan:
    """Check the arguments before anything listens.

    May ask the user to trust a project's file. Raises UsageError.
    """
    settings = arguments.settings
    addresses = resolve_host(settings.host)
    check_encrypted(settings, addresses)
    if (settings.cluster or {}).get("front") is True:
        if settings.agents or arguments.command:
            raise UsageError("a front has no agents; omit --front, or the agents")
        agents: list[ConfiguredAgent] = []
    else:
        agents = served_agents(arguments)
    return GatewayPlan(
        sources=[agent_source(agent) for agent in agents],
        origins=Origins(
            addresses[0], names=(*_host_name(settings), *settings.host_names), allowed=settings.allow_origins
        ),
        server_config=ServerConfig(hosts=addresses, tls=_tls(settings)),
        ports=range(PORT, PORT + PORTS_TRIED) if settings.port is None else (settings.port,),
        limits=settings.limits,
        proxies=Proxies(settings.proxies),
        folders=settings.folders or None,
        start_folder=os.path.realpath(arguments.cwd),
        idle=settings.idle * 60,
        notifications=settings.notifications,
    )


def _host_name(settings: ServeSettings) -> tuple[str, ...]:
    """Return the value of `--host` if it is a name and not an address."""
    name = settings.host.strip("[] ")
    return () if ":" in name or name.replace(".", "").isdigit() else (name,)


def _tls(settings: ServeSettings) -> ssl.SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return tls_context(Path(settings.tls_cert).expanduser(), Path(settings.tls_key).expanduser())


class _ServeRun:
    """Runs the gateway from its start to the end of its shutdown."""

    def __init__(self, arguments: ServeArguments, plan: GatewayPlan) -> None:
        self._arguments = arguments
        self._plan = plan
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._cluster_notes: list[str] = []
        self._node: ClusterNode | None = None

    async def run(self) -> int:
        handlers = {signal.SIGINT: self._request_stop}
        if sys.platform != "win32":
            handlers |= {signal.SIGTERM: self._request_stop, signal.SIGHUP: self._request_stop}
        with signal_handlers(handlers):
            async with AsyncExitStack() as stack:
                node = await self._join_cluster(stack)
                service = await stack.enter_async_context(run_gateway(self._plan, backend=node))
                url = self._url(service)
                service.notifier.link = reachable_link(url)
                agents = [source.name for source in self._plan.sources]
                with announce(url, agents, self._plan.folders):
                    await self._print_start(service, url)
                    await self._stop.wait()
                    await self._shut_down(service)
        LOG.info("the gateway has stopped")
        return 0

    async def _join_cluster(self, stack: AsyncExitStack) -> "ClusterNode | None":
        """Join the cluster of the settings, if they name one. Raises UsageError, StoreError."""
        value = self._arguments.settings.cluster
        if value is None:
            return None
        from accord.cluster.cluster_node import run_node
        from accord.cluster.settings import read_cluster_settings

        settings = read_cluster_settings(value, "serve.json")
        names = [source.name for source in self._plan.sources]
        node = await stack.enter_async_context(run_node(settings, names))
        self._cluster_notes = node.notes
        self._node = node
        return node

    def _request_stop(self) -> None:
        """Stop after the running turns; at the second signal stop at once."""
        if self._stop.is_set():
            self._stop_now.set()
        self._stop.set()

    async def _shut_down(self, service: GatewayService) -> None:
        service.gateway.stopping = True
        if self._node is not None:
            await self._node.drain()
        if service.gateway.busy:
            seconds = self._arguments.settings.stop_wait
            LOG.info("stopping: waiting up to %g seconds for running turns; Ctrl-C stops at once", seconds)
            if not await service.wait_for_turns(seconds, self._stop_now):
                LOG.warning("ending the turns that still run")
        if self._node is not None and not service.gateway.busy:
            await self._node.wait_until_drained(_HAND_OVER_SECONDS)

    def _url(self, service: GatewayService) -> str:
        port = service.http_server.addresses[0][1]
        return public_url(self._arguments.settings, self._plan.server_config.hosts, port)

    async def _print_start(self, service: GatewayService, url: str) -> None:
        arguments = self._arguments
        listening = [
            format_url(self._plan.server_config.tls is not None, *address)
            for address in service.http_server.addresses
        ]
        if arguments.log is not None or arguments.log_format == "json":
            LOG.info("listening on %s", ", ".join(listening))
        names = [source.name for source in self._plan.sources]
        print_start(listening, names, self._notes(arguments.settings, service.http_server.addresses[0][1]))
        tokens = service.authenticator.tokens
        if any(not token.is_expired(time.time()) for token in tokens.all()):
            print(f"Open {url}/ in a logged-in browser. For another device run: accord serve token new")
        elif isinstance(tokens, TokenStore) and (newer := tokens.newer()):
            print(f"No token is valid. {next(iter(newer.values()))}; or run: accord serve token new")
        elif not is_terminal(sys.stdout):
            print("There is no token yet. This output is no terminal, so run: accord serve token new")
        else:
            token, text = new_token("first", now=time.time())
            await tokens.add(token)
            service.audit.record(token.rights(), "token made", by="start", scope=describe_rights(token))
            print_first_token(url, text, qr=arguments.qr)
        print("Press Ctrl-C to stop after the running turns, twice to stop at once.", flush=True)

    def _notes(self, settings: ServeSettings, port: int) -> list[str]:
        notes = list(self._cluster_notes)
        if not (PAGE_FOLDER / "index.html").is_file():
            notes.append(
                "The page is not built; run `make web` in a checkout (needs Node). Everything else works."
            )
        if (
            settings.insecure
            and settings.tls_cert is None
            and not all(map(is_loopback, self._plan.server_config.hosts))
        ):
            notes.append("Warning: the connection is not encrypted (--insecure).")
        notes += notification_notes(settings.notifications)
        notes += [
            f"Another gateway runs at {other.url}; a session is open in one gateway at a time."
            for other in list_running_gateways()
            if other.pid != os.getpid() and self._node is None
        ]
        if settings.port is None and port != PORT:
            notes.insert(0, f"Port {PORT} is in use; using {port}.")
        return notes


def resolve_host(host: str) -> tuple[str, ...]:
    """Return the addresses of a host. Raises UsageError."""
    name = host.strip().strip("[]")
    try:
        entries = socket.getaddrinfo(name or "-", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(f"--host {host!r} is not an address or name of this machine; use another") from None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))


def check_encrypted(settings: ServeSettings, addresses: tuple[str, ...]) -> None:
    """Raise UsageError for an address that other machines can reach without TLS, unless insecure."""
    if settings.insecure or settings.tls_cert is not None or all(map(is_loopback, addresses)):
        return
    raise UsageError(
        f"--host {settings.host} is reachable from other machines without encryption; pass --tls-cert F "
        "--tls-key F, use 127.0.0.1 behind a reverse proxy, or pass --insecure in a "
        "network that you trust"
    )


def public_url(settings: ServeSettings, addresses: tuple[str, ...], port: int) -> str:
    """Return the URL for browsers, as far as it can be known."""
    tls = settings.tls_cert is not None
    public = not all(map(is_loopback, addresses))
    if settings.host_names:
        name = settings.host_names[0]
        if not tls and not public:
            return f"https://{name}"  # behind a reverse proxy
        return format_url(tls, name, port)
    return format_url(tls, _reachable_address(addresses[0]), port)


def notification_notes(settings: NotificationSettings) -> list[str]:
    """Say which topics and webhooks get notifications, and where the secret of the webhooks is."""
    names = [f"ntfy {shown_url(ntfy.url)}" for ntfy in settings.ntfy]
    names += [f"webhook {shown_url(webhook.url)}" for webhook in settings.webhooks]
    notes = [f"Notifications go to {', '.join(names)}; `accord serve notify` tests them."] if names else []
    if any(webhook.secret_file is None for webhook in settings.webhooks):
        file = webhook_secret_file()
        try:
            webhook_secret(file)  # receivers need it before the first event
            notes.append(f"The secret that signs webhooks is in {file}")
        except (OSError, UsageError) as error:
            notes.append(f"Webhooks cannot be signed: {error}")
    return notes


def reachable_link(url: str) -> str | None:
    """Return the URL for links on other devices; None if only this machine can open it."""
    return None if is_loopback(urlsplit(url).hostname or "") else url


def format_url(tls: bool, name: str, port: int) -> str:
    """Return the URL of a host and a port."""
    default_port = 443 if tls else 80
    host = f"[{name}]" if ":" in name else name
    return f"{'https' if tls else 'http'}://{host}" + ("" if port == default_port else f":{port}")


def _reachable_address(address: str) -> str:
    """Return the address, or for an unspecified one (0.0.0.0, ::) the address that other machines see."""
    parsed = ip_address(address.partition("%")[0])
    if not parsed.is_unspecified:
        return address
    return machine_address(parsed.version)


def served_agents(arguments: ServeArguments) -> list[ConfiguredAgent]:
    """Return the agents to serve, the default first. May ask the user to trust a file. Raises UsageError."""
    names, command, cwd, trust = (
        arguments.settings.agents, arguments.command, arguments.cwd, arguments.trust,
    )  # fmt: skip
    served: list[ConfiguredAgent] = []
    if command:
        agent = choose_agent(None, command, cwd, trust=trust)
        served.append(replace(agent, name=arguments.name or Path(command[0]).name))
    if names or not command:
        agents = load(cwd, trust=once if trust else leave_out if command else ask)
        served = [*_configured_agents(agents, names), *served]
    names_so_far: set[str] = set()
    for agent in served:
        if agent.name in names_so_far:
            raise UsageError(f"agent {agent.name!r} is named twice; name it once")
        if "/" in agent.name or not agent.name.isprintable():
            raise UsageError(
                f"agent name {agent.name!r} ({agent.config_location or 'command line'}) cannot be part of "
                "a URL; use a name without /"
            )
        names_so_far.add(agent.name)
    protocol = arguments.protocol
    return served if protocol is None else [replace(agent, protocol=protocol) for agent in served]


def _configured_agents(agents: ConfiguredAgents, names: tuple[str, ...]) -> list[ConfiguredAgent]:
    if names:
        return [agents[name] for name in names]
    first = agents.default
    return [first, *(agent for agent in agents.configured if agent.name != first.name)]


def agent_source(agent: ConfiguredAgent) -> AgentSource:
    """Return how the gateway starts an agent: one process for all sessions, in the home folder by default."""
    home = os.path.expanduser("~")

    async def start(on_stderr: Callable[[str], None]) -> Transport:
        transport: Transport = await agent.launch(home).start(on_stderr, DEFAULT_LIMIT)
        if agent.protocol in (None, 1):
            return transport
        from accord.client.version_request import requesting

        return requesting(transport, only=agent.protocol == 2)

    source = AgentSource(
        name=agent.name,
        start=start,
        title=agent.known.name if agent.known is not None else "",
        description=agent.description,
        mcp_servers=agent.mcp_servers,
        hints=lambda: withheld_hints(agent, named=True, served=True),
    )
    return source if agent.startup is None else replace(source, startup=agent.startup)


def without_secrets(text: str) -> str:
    """Remove tokens, tickets and cookies from a text."""
    return _COOKIE.sub(r"\1...", _TICKET.sub(r"\1...", without_token(text)))


class TextLogFormatter(logging.Formatter):
    """Formats a log record as one line of text."""

    def format(self, record: logging.LogRecord) -> str:
        time_text = datetime.fromtimestamp(record.created).strftime("%Y-%m-%d %H:%M:%S")
        return f"{time_text} {record.levelname.lower():<7} {log_message(record)}"


class JsonLogFormatter(logging.Formatter):
    """Formats a log record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": log_message(record),
        }
        return msgspec.json.encode(line).decode()


def log_message(record: logging.LogRecord) -> str:
    """Return the message as one line, with the exception and where it was raised."""
    text = record.getMessage()
    if record.exc_info and (error := record.exc_info[1]) is not None:
        text += f" ({type(error).__name__}: {error})"
        if (trace := error.__traceback__) is not None:
            while trace.tb_next is not None:
                trace = trace.tb_next
            text += f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    text = clean_line(without_secrets(text).replace("\n", " | "))[:_MAX_LOG_LINE]
    return text.encode(errors="backslashreplace").decode()


@contextmanager
def logging_to(file: str | None, log_format: str, level: str) -> Generator[None]:
    """Log to the file, or to stderr, while the block runs. Raises UsageError."""
    stream: TextIO = sys.stderr
    if file is not None:
        try:
            stream = open(file, "a", encoding="utf-8", opener=private_opener)  # noqa: SIM115 - closed below
        except OSError as error:
            raise UsageError(f"cannot write --log {file!r} ({error.strerror}); use another file") from None
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLogFormatter() if log_format == "json" else TextLogFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        if file is not None:
            stream.close()
