"""The arguments of `accord serve`, read, laid over the settings and checked before anything listens."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accord.cli.chosen import split_command
from accord.cli.folders import folder, told_folder
from accord.cli.parser import Parser
from accord.cli.serving.settings import PORT, Settings, read_settings, with_limits
from accord.errors import UsageError

LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What was asked for."""

    settings: Settings
    command: tuple[str, ...]
    """An agent's own command, behind `--`."""
    cwd: str
    trust: bool
    log: str | None
    log_format: str
    log_level: str
    qr: bool


def read_arguments(words: Sequence[str]) -> Arguments:
    """Raises UsageError for what cannot be meant."""
    ours, command = split_command(words)
    given = parser().parse_intermixed_args(ours)
    settings = msgspec.structs.replace(read_settings(), **_given(given))
    settings = msgspec.structs.replace(settings, limits=with_limits(settings.limits, given.limit or []))
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together: a certificate and its key, as PEM files")
    return Arguments(
        settings=msgspec.structs.replace(
            settings,
            folders=tuple(os.path.realpath(told_folder("--folder", text)) for text in settings.folders),
        ),
        command=command,
        cwd=folder("--cwd", given.cwd),
        trust=given.trust,
        log=given.log,
        log_format=given.log_format,
        log_level=given.log_level,
        qr=not given.no_qr,
    )


def _given(given: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line names, checked as the file's are."""
    lists = {
        "agents": given.agent,
        "host_names": given.host_name,
        "allow_origins": given.allow_origin,
        "proxies": given.proxy,
        "folders": given.folder,
    }
    found: dict[str, Any] = {name: tuple(value) for name, value in lists.items() if value}
    for name in ("host", "tls_cert", "tls_key"):
        if (value := getattr(given, name)) is not None:
            if not value.strip():
                raise UsageError(f"--{name.replace('_', '-')} was given an empty value")
            found[name] = value
    if given.insecure:
        found["insecure"] = True
    for name, kind in (("port", int), ("idle", float), ("stop_wait", float)):
        text = getattr(given, name)
        if text is not None:
            found[name] = _number(name, text, kind)
    return found


def _number(name: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        value = kind(text)
        field = next(field for field in msgspec.structs.fields(Settings) if field.name == name)
        return msgspec.convert(value, field.type)
    except (ValueError, msgspec.ValidationError):
        what = "port: 0 to 65535" if kind is int else "number that can be meant"
        raise UsageError(f"--{name.replace('_', '-')} {text!r} is no {what}") from None


def parser() -> Parser:
    """The parser of everything before `--`."""
    made = Parser("accord serve", "Put agents on the network: the page, WebSocket and HTTP, all with tokens.")
    made.usage = (
        "accord serve [AGENT ...] [OPTIONS] [-- COMMAND ...]\n       accord serve token new | list | revoke"
    )
    made.epilog = (
        "What you always pass can stand in serve.json in the config folder. docs/gateway.md has all of it."
    )
    option = made.add_argument
    option(
        "agent", nargs="*", metavar="AGENT", help="agents of `accord agents list`; the first is the default"
    )
    option("--cwd", metavar="DIR", default=".", help="the folder whose project's acp.json counts")
    option("--trust", action="store_true", help="let the project's acp.json count, in this run only")
    option("--host", metavar="H", help="the address to listen on (127.0.0.1)")
    option("--port", metavar="P", help=f"the port ({PORT}, or the next that is free)")
    option("--host-name", metavar="N", action="append", help="a further name under which it is reached")
    option("--allow-origin", metavar="O", action="append", help="a further origin whose pages may use it")
    option("--proxy", metavar="ADDRESS", action="append", help="a reverse proxy whose X-Forwarded-... count")
    option("--tls-cert", metavar="F", help="speak TLS: the certificate, a PEM file")
    option("--tls-key", metavar="F", help="and its key")
    option("--insecure", action="store_true", help="a public address without TLS all the same")
    option("--folder", metavar="DIR", action="append", help="sessions only in this folder and below")
    option("--idle", metavar="MINUTES", help="end an agent's process after so long without work (15)")
    option("--stop-wait", metavar="SECONDS", help="how long a stop waits for running turns (30)")
    option("--limit", metavar="NAME=N", action="append", help="one of the limits of docs/gateway.md")
    option("--log", metavar="FILE", help="the log goes to this file instead of stderr")
    option("--log-format", choices=LOG_FORMATS, default="text", help="lines for people, or an object a line")
    option("--log-level", choices=LOG_LEVELS, default="info", help="from which level on (info)")
    option("--no-qr", action="store_true", help="the link alone")
    return made
