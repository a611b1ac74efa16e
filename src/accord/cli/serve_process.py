"""The gateway process: addresses, agents, log, shutdown.

Imported on first use.
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
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_address
from logging import getLogger
from pathlib import Path
from typing import Final, TextIO

import msgspec

from accord.cli.agent_choice import chosen_server
from accord.cli.command_parser import heard
from accord.cli.serve_command import PORT, PORTS_TRIED, ServeArguments, ServeSettings
from accord.cli.serve_tokens import greet, may_show_token, show_first_token
from accord.errors import UsageError
from accord.frontend.agent_config import ConfiguredAgent, ConfiguredAgents, ask, leave_out, load, once
from accord.gateway.access.access_tokens import without_token
from accord.gateway.access.request_origin import Origins, Proxies, is_loopback
from accord.gateway.gateway_service import GatewayPlan, GatewayService, run_gateway
from accord.gateway.hosted_agent import AgentSource
from accord.gateway.http import ServerConfig, tls_context
from accord.gateway.http.http_routes import PAGE_FOLDER
from accord.gateway.running_gateways import announce
from accord.safe_text import clean_line
from accord.wire.transport import DEFAULT_LIMIT, Transport

# MERGED cli.serving.addresses: Where the gateway listens, whether that is safe, and the address that a link begins with.


def listening_on(host: str) -> tuple[str, ...]:
    """The addresses that a host stands for. Raises UsageError."""
    name = host.strip().strip("[]")
    try:
        found = socket.getaddrinfo(name or "-", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(f"--host {host!r} is neither an address of this machine nor a name of one") from None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def insist_on_safety(settings: ServeSettings, addresses: tuple[str, ...]) -> None:
    """Refuse an address that others reach without TLS, unless told otherwise. Raises UsageError."""
    if settings.insecure or settings.tls_cert is not None or all(map(is_loopback, addresses)):
        return
    raise UsageError(
        f"--host {settings.host} can be reached by others, and nothing would be encrypted: pass --tls-cert F --tls-key F, "
        "or keep to loopback behind a reverse proxy (docs/gateway.md), or pass --insecure in a network that you trust"
    )


def public_url(settings: ServeSettings, addresses: tuple[str, ...], port: int) -> str:
    """How a browser gets here, as far as we can know."""
    tls = settings.tls_cert is not None
    outside = not all(map(is_loopback, addresses))
    if settings.host_names:
        name = settings.host_names[0]
        if not tls and not outside:
            return f"https://{name}"  # a proxy stands before us
        return url_of(tls, name, port)
    return url_of(tls, _reachable(addresses[0]), port)


def url_of(tls: bool, name: str, port: int) -> str:
    """The address of a host and a port."""
    usual = 443 if tls else 80
    host = f"[{name}]" if ":" in name else name
    return f"{'https' if tls else 'http'}://{host}" + ("" if port == usual else f":{port}")


def _reachable(address: str) -> str:
    """The address itself; where it stands for all of them, the one that other machines would see."""
    parsed = ip_address(address.partition("%")[0])
    if not parsed.is_unspecified:
        return address
    # Connecting a datagram socket sends nothing: it makes the system choose the address it would send from.
    family, elsewhere = (
        (socket.AF_INET, "192.0.2.1") if parsed.version == 4 else (socket.AF_INET6, "2001:db8::1")
    )
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1" if parsed.version == 4 else "::1"


# MERGED cli.serving.agents: Which agents a gateway offers, as the gateway wants to know them.


def offered(
    names: tuple[str, ...], command: tuple[str, ...], cwd: str, *, trust: bool
) -> list[ConfiguredAgent]:
    """The agents, the default one first. May ask whether a project's file counts. Raises UsageError."""
    found: list[ConfiguredAgent] = []
    if command:
        agent = chosen_server(None, command, cwd, trust=trust)
        found.append(replace(agent, name=Path(command[0]).name))
    if names or not command:
        servers = load(cwd, trust=once if trust else leave_out if command else ask)
        found = [*_named(servers, names), *found]
    taken: set[str] = set()
    for server in found:
        if server.name in taken:
            raise UsageError(f"the agent {server.name!r} was named twice")
        if "/" in server.name or not server.name.isprintable():
            raise UsageError(
                f"{server.place or server.name!r}: an agent's name is part of its address: give it one without /"
            )
        taken.add(server.name)
    return found


def _named(servers: ConfiguredAgents, names: tuple[str, ...]) -> list[ConfiguredAgent]:
    if names:
        return [servers[name] for name in names]
    first = servers.default
    return [first, *(server for server in servers.configured if server.name != first.name)]


def source_of(server: ConfiguredAgent) -> AgentSource:
    """How the gateway starts it: once for all sessions, in the home folder unless its file names another."""
    home = os.path.expanduser("~")

    async def start(on_stderr: Callable[[str], None]) -> Transport:
        return await server.launch(home).start(on_stderr, DEFAULT_LIMIT)

    known = server.known
    source = AgentSource(
        name=server.name,
        start=start,
        title=known.name if known is not None else "",
        description=server.description,
        mcp_servers=server.mcp_servers,
    )
    return source if server.startup is None else replace(source, startup=server.startup)


# MERGED cli.serving.logs: The log of the gateway: lines for people or JSON lines, from Python's `logging`. No secret gets into it, and no escape sequence.

_TICKET: Final = re.compile(r"(ticket=)[A-Za-z0-9_-]+")
_COOKIE: Final = re.compile(r"(accord=)[A-Za-z0-9_-]{16,}")
_LONGEST: Final = 2000


def without_secrets(text: str) -> str:
    """The text with tokens, tickets and cookies taken out."""
    return _COOKIE.sub(r"\1...", _TICKET.sub(r"\1...", without_token(text)))


class TextLogFormatter(logging.Formatter):
    """A line for people."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).strftime("%Y-%m-%d %H:%M:%S")
        return f"{when} {record.levelname.lower():<7} {message_of(record)}"


class JsonLogFormatter(logging.Formatter):
    """An object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
        }
        return msgspec.json.encode(line).decode()


def message_of(record: logging.LogRecord) -> str:
    """What is to be said, in one line, with the error that goes with it; where it came from is for debugging."""
    text = record.getMessage()
    if record.exc_info and (error := record.exc_info[1]) is not None:
        text += f" ({type(error).__name__}: {error})"
        if (trace := error.__traceback__) is not None:
            while trace.tb_next is not None:
                trace = trace.tb_next
            text += f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    text = clean_line(without_secrets(text).replace("\n", " | "))[:_LONGEST]
    return text.encode(errors="backslashreplace").decode()


@contextmanager
def logging_to(file: str | None, form: str, level: str) -> Generator[None]:
    """While the block runs, the log goes to the file, or to stderr. Raises UsageError."""
    stream: TextIO = sys.stderr
    if file is not None:
        try:
            stream = open(file, "a", encoding="utf-8")  # noqa: SIM115 - closed below
        except OSError as error:
            raise UsageError(f"--log {file!r} cannot be written ({error.strerror})") from None
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLogFormatter() if form == "json" else TextLogFormatter())
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


# MERGED cli.serving.service: `accord serve` from its arguments to its end: put the gateway together, greet, wait for a stop, stop in order.

LOG = getLogger("accord.gateway")


def serve(given: ServeArguments) -> int:
    """Serve until told to stop. Raises UsageError, StoreError."""
    plan = plan_of(given)
    with logging_to(given.log, given.log_format, given.log_level):
        return asyncio.run(_Serving(given, plan).run())


def plan_of(given: ServeArguments) -> GatewayPlan:
    """Everything that can be wrong with the arguments, before anything listens. May ask whether a project's file counts."""
    settings = given.settings
    addresses = listening_on(settings.host)
    insist_on_safety(settings, addresses)
    servers = offered(settings.agents, given.command, given.cwd, trust=given.trust)
    usual = settings.port is None
    return GatewayPlan(
        sources=[source_of(server) for server in servers],
        origins=Origins(
            addresses[0], names=(*_own_name(settings), *settings.host_names), allowed=settings.allow_origins
        ),
        server_config=ServerConfig(hosts=addresses, tls=_tls(settings)),
        ports=range(PORT, PORT + PORTS_TRIED) if usual else (settings.port or 0,),
        limits=settings.limits,
        proxies=Proxies(settings.proxies),
        folders=settings.folders or None,
        idle=settings.idle * 60,
    )


def _own_name(settings: ServeSettings) -> tuple[str, ...]:
    """A name given as `--host` is one that we are reached by."""
    name = settings.host.strip("[] ")
    return () if ":" in name or name.replace(".", "").isdigit() else (name,)


def _tls(settings: ServeSettings) -> ssl.SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return tls_context(Path(settings.tls_cert).expanduser(), Path(settings.tls_key).expanduser())


class _Serving:
    """One run of the command."""

    def __init__(self, given: ServeArguments, plan: GatewayPlan) -> None:
        self._given = given
        self._plan = plan
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self) -> int:
        reactions = {signal.SIGINT: self._asked_to_stop}
        if sys.platform != "win32":
            reactions |= {signal.SIGTERM: self._asked_to_stop, signal.SIGHUP: self._asked_to_stop}
        with heard(reactions):
            async with run_gateway(self._plan) as service:
                url = self._url(service)
                with announce(url):
                    self._greet(service, url)
                    await self._stop.wait()
                    await self._wind_down(service)
        LOG.info("the gateway has stopped")
        return 0

    def _asked_to_stop(self) -> None:
        """The first signal lets turns end, the second does not wait for them."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def _wind_down(self, service: GatewayService) -> None:
        service.gateway.stopping = True
        if service.gateway.busy:
            seconds = self._given.settings.stop_wait
            LOG.info("stopping: running turns have %g seconds to end; another Ctrl-C does not wait", seconds)
            if not await service.wait_for_turns(seconds, self._hurry):
                LOG.warning("turns that still run are ended")

    def _url(self, service: GatewayService) -> str:
        port = service.http_server.addresses[0][1]
        return public_url(self._given.settings, self._plan.server_config.hosts, port)

    def _greet(self, service: GatewayService, url: str) -> None:
        settings = self._given.settings
        listening = [
            url_of(self._plan.server_config.tls is not None, *address)
            for address in service.http_server.addresses
        ]
        if self._given.log is not None or self._given.log_format == "json":
            LOG.info("listening on %s", ", ".join(listening))
        names = [source.name for source in self._plan.sources]
        greet(listening, names, self._notes(settings, service.http_server.addresses[0][1]))
        tokens = service.authenticator.tokens
        if any(not token.is_expired(time.time()) for token in tokens.all()):
            print(f"Open {url}/ where you are logged in; accord serve token new lets another device in.")
        elif not may_show_token():
            print("There is no token yet, and this output is kept: run accord serve token new to make one.")
        else:
            token, text = tokens.new("first")
            service.audit.record(token.rights(), "token made")
            show_first_token(url, text, qr=self._given.qr)
        print("Ctrl-C stops: running turns may end, a second Ctrl-C does not wait.", flush=True)

    def _notes(self, settings: ServeSettings, port: int) -> list[str]:
        notes: list[str] = []
        if not (PAGE_FOLDER / "index.html").is_file():
            notes.append(
                "The page is not built: `make web` in a checkout, with Node, builds it. All else works."
            )
        if (
            settings.insecure
            and settings.tls_cert is None
            and not all(map(is_loopback, self._plan.server_config.hosts))
        ):
            notes.append("Nothing is encrypted (--insecure): who can read this network can read along.")
        if settings.port is None and port != PORT:
            notes.insert(0, f"Port {PORT} was taken, so it is {port}.")
        return notes
