"""`accord serve`: arguments and `serve.json`."""

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from accord.cli.agent_choice import split_command
from accord.cli.command_parser import Parser, folder, told_folder
from accord.errors import UsageError
from accord.gateway.access.resource_limits import GatewayLimits
from accord.paths import config_dir

# MERGED cli.serve: `accord serve`: the gateway and its page; `accord serve token`: who is let in.


def main(arguments: Sequence[str]) -> int:
    """Serve until told to stop; the result is the exit code."""
    if arguments and arguments[0] == "token":
        from accord.cli.serve_tokens import main as token_main

        return token_main(arguments[1:])

    given = read_arguments(arguments)
    from accord.extras import require

    require("gateway", "accord serve")
    from accord.cli.serve_process import serve

    return serve(given)


# MERGED cli.serving.settings: The settings of `accord serve`: `serve.json` in the config folder, and the options that go before it.

PORT: Final = 8765
PORTS_TRIED: Final = 20
_LARGEST: Final = 1024 * 1024
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

Minutes = Annotated[float, Meta(gt=0, le=525_600)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Port = Annotated[int, Meta(ge=0, le=65_535)]


class ServeSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Everything that can be set about a gateway."""

    agents: tuple[str, ...] = ()
    """Names; none means those of acp.json and the built-in one."""
    host: str = "127.0.0.1"
    port: Port | None = None
    """None is the usual one or the next that is free; 0 lets the system choose."""
    host_names: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    insecure: bool = False
    folders: tuple[str, ...] = ()
    idle: Minutes = 15.0
    stop_wait: Seconds = 30.0
    limits: GatewayLimits = GatewayLimits()


def settings_file() -> Path:
    """Where they stand."""
    return config_dir() / "serve.json"


def read_settings(path: Path | None = None) -> ServeSettings:
    """Those of the file; the usual ones where there is none. Raises UsageError."""
    path = settings_file() if path is None else path
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST)
    except FileNotFoundError:
        return ServeSettings()
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read ({error.strerror})") from None
    try:
        return msgspec.json.decode(data, type=ServeSettings)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}; docs/gateway.md shows the form") from None


def with_limits(limits: GatewayLimits, given: list[str]) -> GatewayLimits:
    """The limits with each NAME=N of the command line in its place. Raises UsageError."""
    names = [field.encode_name for field in msgspec.structs.fields(GatewayLimits)]
    raw = msgspec.to_builtins(limits)
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or name not in names:
            raise UsageError(f"--limit {text!r}: write it as NAME=N; there are: {', '.join(names)}")
        try:
            raw[name] = float(value) if "PerSecond" in name or "Burst" in name else int(value)
        except ValueError:
            raise UsageError(f"--limit {text!r}: {value!r} is no number") from None
    try:
        return msgspec.convert(raw, GatewayLimits)
    except msgspec.ValidationError as error:
        raise UsageError(f"--limit: {error}") from None


def seconds_of(option: str, text: str) -> float:
    """A time such as `30d`, in seconds. Raises UsageError."""
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", text.strip().lower())
    if found is None or not int(found[1]):
        raise UsageError(f"{option} {text!r} is no time: write it as 12h, 30d or 8w")
    return int(found[1]) * _UNITS[found[2]]


# MERGED cli.serving.arguments: The arguments of `accord serve`, read, laid over the settings and checked before anything listens.

LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArguments:
    """What was asked for."""

    settings: ServeSettings
    command: tuple[str, ...]
    """An agent's own command, behind `--`."""
    cwd: str
    trust: bool
    log: str | None
    log_format: str
    log_level: str
    qr: bool


def read_arguments(words: Sequence[str]) -> ServeArguments:
    """Raises UsageError for what cannot be meant."""
    ours, command = split_command(words)
    given = parser().parse_intermixed_args(ours)
    settings = msgspec.structs.replace(read_settings(), **_given(given))
    settings = msgspec.structs.replace(settings, limits=with_limits(settings.limits, given.limit or []))
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together: a certificate and its key, as PEM files")
    return ServeArguments(
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
        field = next(field for field in msgspec.structs.fields(ServeSettings) if field.name == name)
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
