"""`accord serve`: reads the arguments and `serve.json`, then starts the gateway."""

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from accord.cli.command_parser import (
    Parser,
    add_protocol_option,
    add_trust_option,
    agent_folder,
    existing_folder,
    read_protocol,
    split_command,
)
from accord.errors import UsageError
from accord.file_format import FileFormat
from accord.gateway.access.resource_limits import GatewayLimits
from accord.gateway.notifications.notification_settings import (
    NotificationSettings,
    NtfySettings,
    WebhookSettings,
)
from accord.paths import config_dir
from accord.schema.validation import explain_setting_error

if TYPE_CHECKING:
    from accord.client.client_options import ProtocolChoice
    from accord.cluster.settings import ClusterSettings

PORT: Final = 8765
PORTS_TRIED: Final = 20
LOG_FORMATS: Final[tuple[str, ...]] = ("text", "json")
LOG_LEVELS: Final[tuple[str, ...]] = ("debug", "info", "warning", "error")
_MAX_SETTINGS_BYTES: Final = 1024 * 1024
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

Minutes = Annotated[float, Meta(gt=0, le=525_600)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Port = Annotated[int, Meta(ge=0, le=65_535)]


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal stops the gateway and return the exit code."""
    if arguments and arguments[0] in ("token", "audit", "notify"):
        from accord.cli.serve_subcommands import run_subcommand

        return run_subcommand(arguments[0], arguments[1:])
    serve_arguments = read_arguments(arguments)
    from accord.extras import require

    require("gateway", "the gateway")
    if serve_arguments.settings.cluster is not None:
        require("cluster", "a cluster")
    from accord.cli.serve_process import serve

    return serve(serve_arguments)


class ServeSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings of a gateway, as in `serve.json`. Command-line options override the file."""

    agents: tuple[str, ...] = ()
    """Names. Empty means the agents of `acp.json` and the built-in one."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: Port | None = None
    """None means the default port or the next free one; 0 lets the system choose."""
    host_names: tuple[str, ...] = ()
    """The names under which clients reach the gateway."""
    allow_origins: tuple[str, ...] = ()
    """Other web origins that may use the gateway."""
    proxies: tuple[str, ...] = ()
    """Addresses of reverse proxies whose forwarding headers are trusted."""
    tls_cert: str | None = None
    """The certificate file, for HTTPS."""
    tls_key: str | None = None
    """The key file of the certificate."""
    insecure: bool = False
    """Allows an address beyond this machine without TLS."""
    folders: tuple[str, ...] = ()
    """The folders in which sessions may be opened; empty means all."""
    idle: Minutes = 15.0
    """Minutes until an agent without clients and turns is stopped."""
    stop_wait: Seconds = 30.0
    """Seconds that running turns get at the end."""
    limits: GatewayLimits = GatewayLimits()
    """The [limits](#limits) of clients, sessions and memory."""
    notifications: NotificationSettings = NotificationSettings()
    """How users are told that sessions wait: [settings](#notifications), [guide](notifications.md)."""
    cluster: dict[str, Any] | None = None
    """Keeps the sessions in NATS JetStream: [settings](#cluster), [guide](cluster.md)."""


def settings_file() -> Path:
    """Return the path of `serve.json`."""
    return config_dir() / "serve.json"


def read_settings(path: Path | None = None) -> ServeSettings:
    """Read `serve.json`; without the file, return the defaults. Raises UsageError."""
    path = settings_file() if path is None else path
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_SETTINGS_BYTES)
    except FileNotFoundError:
        return ServeSettings()
    except OSError as error:
        raise UsageError(f"cannot read {path} ({error.strerror})") from None
    try:
        settings = FileFormat().decode(data, ServeSettings, path)
        settings.notifications.checked()
        return settings
    except msgspec.ValidationError as error:
        reason, position = explain_setting_error(error, ServeSettings)
        raise UsageError(
            f"invalid {path} ({position.lstrip('.')}: {reason}); see the gateway reference"
        ) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"invalid {path} ({error}); see the gateway reference") from None


def cluster_settings(option: str | None) -> "ClusterSettings | None":
    """The cluster of `--cluster`, else of `serve.json`; None if neither names NATS servers.

    Raises UsageError.
    """
    value: dict[str, Any] = dict(read_settings().cluster or {})
    if option is not None:
        value["servers"] = [server for server in option.split(",") if server]
    if not value.get("servers"):
        return None
    from accord.extras import require

    require("cluster", "a cluster")
    from accord.cluster.settings import read_cluster_settings

    return read_cluster_settings(value, str(settings_file()))


def with_limits(limits: GatewayLimits, overrides: list[str]) -> GatewayLimits:
    """Return the limits changed by the NAME=N texts of the command line. Raises UsageError."""
    names = [field.encode_name for field in msgspec.structs.fields(GatewayLimits)]
    raw = msgspec.to_builtins(limits)
    for text in overrides:
        name, equals, value = text.partition("=")
        if not equals or name not in names:
            raise UsageError(f"--limit {text!r} is not NAME=N; the names are: {', '.join(names)}")
        try:
            raw[name] = float(value) if "PerSecond" in name or "Burst" in name else int(value)
        except ValueError:
            raise UsageError(f"--limit {text!r}: {value!r} is not a number") from None
    try:
        return msgspec.convert(raw, GatewayLimits)
    except msgspec.ValidationError as error:
        raise UsageError(f"--limit: {error}") from None


def parse_duration(option: str, text: str) -> float:
    """Convert a duration such as `30d` to seconds. Raises UsageError."""
    match = re.fullmatch(r"([0-9]{1,6})([smhdw])", text.strip().lower())
    if match is None or not int(match[1]):
        raise UsageError(f"{option} {text!r} is not a duration; use for example 12h, 30d or 8w")
    return int(match[1]) * _UNIT_SECONDS[match[2]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArguments:
    """The checked arguments, merged with `serve.json`."""

    settings: ServeSettings
    command: tuple[str, ...]
    """The command of an agent, after `--`."""
    name: str | None
    protocol: "ProtocolChoice | None"
    """The protocol version of `--protocol`, for all agents."""
    """The name of the agent that the command runs."""
    cwd: str
    trust: bool
    log: str | None
    log_format: str
    log_level: str
    qr: bool


def read_arguments(words: Sequence[str]) -> ServeArguments:
    """Parse and check the arguments and merge them with `serve.json`. Raises UsageError."""
    own_words, command = split_command(words)
    options = parser().parse_intermixed_args(_with_cluster_value(own_words))
    settings = msgspec.structs.replace(read_settings(), **_settings_of_options(options))
    settings = msgspec.structs.replace(settings, limits=with_limits(settings.limits, options.limit or []))
    if options.name is not None and not command:
        raise UsageError(f"--name {options.name!r} names the agent after --; add -- and its command")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise UsageError(
            "--tls-cert and --tls-key need each other; pass a certificate and its key as PEM files"
        )
    return ServeArguments(
        settings=msgspec.structs.replace(
            settings,
            folders=tuple(os.path.realpath(agent_folder("--folder", text)) for text in settings.folders),
        ),
        command=command,
        name=options.name,
        protocol=read_protocol(options.protocol),
        cwd=existing_folder("--cwd", options.cwd),
        trust=options.trust,
        log=options.log,
        log_format=options.log_format,
        log_level=options.log_level,
        qr=not options.no_qr,
    )


def _with_cluster_value(words: list[str]) -> list[str]:
    """Give `--cluster` an empty value unless an address follows: other words after it name agents."""
    return [
        "--cluster=" if word == "--cluster" and "://" not in "".join(words[number : number + 1]) else word
        for number, word in enumerate(words, 1)
    ]


def _settings_of_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the command line names, checked like those of the file."""
    lists = {
        "agents": options.agent,
        "host_names": options.host_name,
        "allow_origins": options.allow_origin,
        "proxies": options.proxy,
        "folders": options.folder,
    }
    settings: dict[str, Any] = {name: tuple(value) for name, value in lists.items() if value}
    for name in ("host", "tls_cert", "tls_key"):
        if (value := getattr(options, name)) is not None:
            if not value.strip():
                raise UsageError(
                    f"--{name.replace('_', '-')} has an empty value; omit the option or pass a value"
                )
            settings[name] = value
    if options.insecure:
        settings["insecure"] = True
    if options.cluster is not None:
        servers = [server for server in options.cluster.split(",") if server]
        settings["cluster"] = {**(read_settings().cluster or {}), **({"servers": servers} if servers else {})}
    if options.front:
        if (cluster := settings.get("cluster", read_settings().cluster)) is None:
            raise UsageError("--front serves the agents of other nodes of a cluster; pass --cluster, too")
        settings["cluster"] = {**cluster, "front": True}
    if options.node is not None:
        if (cluster := settings.get("cluster", read_settings().cluster)) is None:
            raise UsageError("--node names a node of a cluster; pass --cluster, too")
        settings["cluster"] = {**cluster, "node": options.node}
    settings["notifications"] = notification_settings(options)
    for name, kind in (("port", int), ("idle", float), ("stop_wait", float)):
        text = getattr(options, name)
        if text is not None:
            settings[name] = _parse_number(name, text, kind)
    return settings


def add_target_options(parser: Parser) -> None:
    """Add the options that name what gets notifications besides the browsers."""
    parser.option("--ntfy URL", "send notifications to this ntfy topic; repeatable", repeat=True)
    parser.option("--webhook URL", "send signed notifications to this address; repeatable", repeat=True)


def notification_settings(options: argparse.Namespace) -> NotificationSettings:
    """Return the settings of `serve.json` with the topics and webhooks of the options. Raises UsageError."""
    known = read_settings().notifications
    return msgspec.structs.replace(
        known,
        ntfy=(*known.ntfy, *(NtfySettings(url=url) for url in options.ntfy)),
        webhooks=(*known.webhooks, *(WebhookSettings(url=url) for url in options.webhook)),
    ).checked()


def _parse_number(name: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        value = kind(text)
        field = next(field for field in msgspec.structs.fields(ServeSettings) if field.name == name)
        return msgspec.convert(value, field.type)
    except (ValueError, msgspec.ValidationError):
        expected = "a port from 0 to 65535" if kind is int else "a valid number"
        raise UsageError(f"--{name.replace('_', '-')} {text!r} is not {expected}") from None


def parser() -> Parser:
    """Return the parser of the arguments before `--`."""
    parser = Parser(
        "accord serve", "Serve agents: the web page, WebSocket and HTTP, all protected by tokens."
    )
    parser.usage = (
        "accord serve [AGENT ...] [OPTIONS] [-- COMMAND ...]\n       accord serve token new | list | revoke\n"
        "       accord serve notify\n       accord serve audit verify"
    )
    parser.epilog = (
        "Put defaults in serve.json in the config folder; command-line options override them. "
        "The gateway reference in the documentation describes all settings."
    )
    option = parser.option
    parser.add_argument(
        "agent", nargs="*", metavar="AGENT", help="agents from `accord agents list`; the first is the default"
    )
    option("--name NAME", "name of the agent that the command after -- runs (default: its program)")
    add_protocol_option(parser, "to ask the agents for")
    option("--cwd DIR", "folder whose project's acp.json to use, and of new sessions", default=".")
    add_trust_option(parser)
    option("--host H", "address to listen on (default: 127.0.0.1)")
    option("--port P", f"port to listen on (default: {PORT} or the next free one)")
    option("--host-name N", "additional host name of this server; repeatable", repeat=True, default=None)
    option("--allow-origin O", "additional origin whose pages may connect", repeat=True, default=None)
    option("--proxy ADDRESS", "reverse proxy whose X-Forwarded headers to trust", repeat=True, default=None)
    option("--tls-cert F", "use TLS with this certificate, a PEM file")
    option("--tls-key F", "key of the certificate, a PEM file")
    option("--insecure", "allow a public address without TLS")
    option("--folder DIR", "allow sessions only in this folder; repeatable", repeat=True, default=None)
    option("--idle MINUTES", "stop an agent after this time without work (default: 15)")
    option("--stop-wait SECONDS", "how long a stop waits for running turns (default: 30)")
    option("--limit NAME=N", "change a limit, such as connections=64; repeatable", repeat=True, default=None)
    add_target_options(parser)
    option("--cluster URL", "keep sessions on these NATS servers; without a URL, start one")
    option("--node NAME", "name of this node of the cluster (default: the host name)")
    option("--front", "serve the agents of other nodes of the cluster, and none of this machine")
    option("--log FILE", "write the log to this file instead of stderr")
    option("--log-format", "text (default) or json, one object per line", choices=LOG_FORMATS, default="text")
    option("--log-level", "lowest level to log (default: info)", choices=LOG_LEVELS, default="info")
    option("--no-qr", "print the link without a QR code")
    return parser
