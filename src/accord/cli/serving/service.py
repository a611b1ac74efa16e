"""`accord serve` from its arguments to its end: put the gateway together, greet, wait for a stop, stop in order."""

import asyncio
import signal
import ssl
import sys
import time
from logging import getLogger
from pathlib import Path

from accord.cli.serving.addresses import insist_on_safety, listening_on, public_url, url_of
from accord.cli.serving.agents import offered, source_of
from accord.cli.serving.arguments import Arguments
from accord.cli.serving.greeting import greet, may_show_token, show_first_token
from accord.cli.serving.logs import logging_to
from accord.cli.serving.settings import PORT, PORTS_TRIED, Settings
from accord.cli.signals import heard
from accord.gateway.access.origins import Origins, is_loopback
from accord.gateway.access.proxies import Proxies
from accord.gateway.front import FrontConfig, tls_context
from accord.gateway.front.page import FOLDER
from accord.gateway.running import announced
from accord.gateway.serving import Plan, Service, serving

LOG = getLogger("accord.gateway")


def serve(given: Arguments) -> int:
    """Serve until told to stop. Raises UsageError, StoreError."""
    plan = plan_of(given)
    with logging_to(given.log, given.log_format, given.log_level):
        return asyncio.run(_Serving(given, plan).run())


def plan_of(given: Arguments) -> Plan:
    """Everything that can be wrong with the arguments, before anything listens. May ask whether a project's file counts."""
    settings = given.settings
    addresses = listening_on(settings.host)
    insist_on_safety(settings, addresses)
    servers = offered(settings.agents, given.command, given.cwd, trust=given.trust)
    usual = settings.port is None
    return Plan(
        sources=[source_of(server) for server in servers],
        origins=Origins(
            addresses[0], names=(*_own_name(settings), *settings.host_names), allowed=settings.allow_origins
        ),
        front=FrontConfig(hosts=addresses, tls=_tls(settings)),
        ports=range(PORT, PORT + PORTS_TRIED) if usual else (settings.port or 0,),
        limits=settings.limits,
        proxies=Proxies(settings.proxies),
        folders=settings.folders or None,
        idle=settings.idle * 60,
    )


def _own_name(settings: Settings) -> tuple[str, ...]:
    """A name given as `--host` is one that we are reached by."""
    name = settings.host.strip("[] ")
    return () if ":" in name or name.replace(".", "").isdigit() else (name,)


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return tls_context(Path(settings.tls_cert).expanduser(), Path(settings.tls_key).expanduser())


class _Serving:
    """One run of the command."""

    def __init__(self, given: Arguments, plan: Plan) -> None:
        self._given = given
        self._plan = plan
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self) -> int:
        reactions = {signal.SIGINT: self._asked_to_stop}
        if sys.platform != "win32":
            reactions |= {signal.SIGTERM: self._asked_to_stop, signal.SIGHUP: self._asked_to_stop}
        with heard(reactions):
            async with serving(self._plan) as service:
                url = self._url(service)
                with announced(url):
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

    async def _wind_down(self, service: Service) -> None:
        service.gateway.stopping = True
        if service.gateway.busy:
            seconds = self._given.settings.stop_wait
            LOG.info("stopping: running turns have %g seconds to end; another Ctrl-C does not wait", seconds)
            if not await service.settled(seconds, self._hurry):
                LOG.warning("turns that still run are ended")

    def _url(self, service: Service) -> str:
        port = service.front.addresses[0][1]
        return public_url(self._given.settings, self._plan.front.hosts, port)

    def _greet(self, service: Service, url: str) -> None:
        settings = self._given.settings
        listening = [
            url_of(self._plan.front.tls is not None, *address) for address in service.front.addresses
        ]
        if self._given.log is not None or self._given.log_format == "json":
            LOG.info("listening on %s", ", ".join(listening))
        names = [source.name for source in self._plan.sources]
        greet(listening, names, self._notes(settings, service.front.addresses[0][1]))
        tokens = service.door.tokens
        if any(not token.is_expired(time.time()) for token in tokens.all()):
            print(f"Open {url}/ where you are logged in; accord serve token new lets another device in.")
        elif not may_show_token():
            print("There is no token yet, and this output is kept: run accord serve token new to make one.")
        else:
            token, text = tokens.new("first")
            service.audit.record(token.visa(), "token made")
            show_first_token(url, text, qr=self._given.qr)
        print("Ctrl-C stops: running turns may end, a second Ctrl-C does not wait.", flush=True)

    def _notes(self, settings: Settings, port: int) -> list[str]:
        notes: list[str] = []
        if not (FOLDER / "index.html").is_file():
            notes.append(
                "The page is not built: `make web` in a checkout, with Node, builds it. All else works."
            )
        if (
            settings.insecure
            and settings.tls_cert is None
            and not all(map(is_loopback, self._plan.front.hosts))
        ):
            notes.append("Nothing is encrypted (--insecure): who can read this network can read along.")
        if settings.port is None and port != PORT:
            notes.insert(0, f"Port {PORT} was taken, so it is {port}.")
        return notes
