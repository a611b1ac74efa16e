"""`accord serve token`: creates, lists and revokes tokens; prints links and the start of `accord serve`.

A running gateway sees changes of the tokens at once, and in a cluster all nodes do.

Imported on first use: it loads accord.gateway.
"""

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

from accord.cli.command_parser import (
    Parser,
    agent_folder,
    find_subcommand,
    is_terminal,
    print_stderr,
    print_table,
)
from accord.cli.serve_command import PORT, cluster_settings, parse_duration
from accord.errors import UsageError
from accord.frontend.agent_config import leave_out, load
from accord.gateway.access.access_contracts import Browsers, PushDevices, Tokens
from accord.gateway.access.access_tokens import (
    TOKEN_PATTERN,
    Token,
    TokenStore,
    describe_rights,
    new_token,
    pairing_link,
    qr_code,
)
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.browser_logins import BrowserLogins
from accord.gateway.access.push_devices import FilePushDevices
from accord.gateway.access.request_origin import is_loopback, machine_address, split_origin
from accord.gateway.running_gateways import list_running_gateways
from accord.safe_text import visible

T = TypeVar("T")
AccessWork: TypeAlias = Callable[[Tokens, Browsers, PushDevices], Coroutine[Any, Any, T]]

_MAX_NAME_LENGTH: Final = 64


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand of `accord serve token` and return the exit code."""
    name = find_subcommand("accord serve token", _COMMANDS, arguments)
    if name is None:
        return 0 if arguments else 2
    return _COMMANDS[name][1](arguments[1:])


def print_link(url: str, token: str, *, qr: bool) -> None:
    """Print the link and, if another device can open it and the terminal is large enough, its QR code."""
    text = pairing_link(url, token)
    print(f"  {text}")
    if is_loopback(urlsplit(url).hostname or ""):
        address = machine_address()
        print(
            "\nThis link works on this computer only. For a phone in the same network, start the gateway with"
        )
        print(f"  accord serve --host {address} --tls-cert CERTIFICATE --tls-key KEY")
    elif qr and is_terminal(sys.stdout):
        code = qr_code(text, shutil.get_terminal_size().columns - 2)
        if code is not None:
            print()
            for line in code:
                print(f"  {line}")


def print_start(listening: Sequence[str], agents: Sequence[str], notes: Sequence[str]) -> None:
    """Print the addresses and the agents, the default agent first."""
    print(f"accord serve: listening on {', '.join(listening)}")
    names = [visible(name) for name in agents]
    if names:
        print(f"Agents: {', '.join([f'{names[0]} (default)', *names[1:]])}")
    else:
        print("Agents: those of the other nodes")
    for note in notes:
        print(note)


def print_first_token(url: str, token: str, *, qr: bool) -> None:
    """Print the link with the token that the first start in a terminal creates."""
    print("\nOpen this link. It contains a new token and is shown only once:\n")
    print_link(url, token, qr=qr)
    print("\nFor another device or program run: accord serve token new")


def _new(arguments: Sequence[str]) -> int:
    parser = Parser("accord serve token new", _COMMANDS["new"][0])
    option = parser.option
    option("--name N", "name of the token in lists and the audit log", default="")
    option("--agent A", "allow only this agent; repeatable", repeat=True, default=None)
    option("--folder D", "allow only this folder; repeatable", repeat=True, default=None)
    option("--read-only", "allow only to watch sessions")
    option("--allow-mcp", "allow MCP servers of the client, which run as your user")
    option("--expires TIME", "lifetime of the token, such as 12h, 30d or 8w")
    option("--url URL", "base of the link (default: the running gateway)")
    option("--no-qr", "print the link without a QR code")
    option("--plain", "print only the token, for scripts")
    _add_cluster_option(parser)
    options = parser.parse_args(arguments)
    name = options.name.strip()
    if len(name) > _MAX_NAME_LENGTH or not name.isprintable():
        raise UsageError(f"--name must be printable and have at most {_MAX_NAME_LENGTH} characters")
    if options.allow_mcp and options.read_only:
        raise UsageError("--allow-mcp and --read-only exclude each other: MCP servers run commands")
    url = _url(options.url)
    token, text = new_token(
        name,
        now=time.time(),
        agents=None if options.agent is None else _agent_names(options.agent, options.cluster),
        folders=None
        if options.folder is None
        else [agent_folder("--folder", text) for text in options.folder],
        read_only=options.read_only,
        allow_mcp=options.allow_mcp or None,
        expires=None
        if options.expires is None
        else time.time() + parse_duration("--expires", options.expires),
    )
    with_access(options.cluster, lambda tokens, browsers, devices: tokens.add(token))
    record_token(token, "token made")
    if options.plain:
        print(text)
        return 0
    print(f"Token {token.id}{_name_suffix(token)} {describe_rights(token)}.")
    for gateway in list_running_gateways():
        if gateway.folders is not None:
            print(f"The gateway at {gateway.url} allows only {', '.join(map(visible, gateway.folders))}.")
    print(f"It is shown only once:\n\n  {text}\n")
    print("Open this link to log in a browser:\n")
    print_link(url, text, qr=not options.no_qr)
    if options.url is None and not list_running_gateways():
        print("\nNo gateway is running. The link uses the default address; pass --url for another.")
    return 0


def _list(arguments: Sequence[str]) -> int:
    parser = Parser("accord serve token list", _COMMANDS["list"][0])
    parser.option("--json", "print a JSON array with one object per token")
    _add_cluster_option(parser)
    options = parser.parse_args(arguments)

    async def read(store: Tokens, *_: object) -> list[tuple[Token, float | None]]:
        newer = store.newer() if isinstance(store, TokenStore) else {}
        for reason in newer.values():
            print_stderr(f"a token is not valid here: {reason}", command="serve")
        return [(token, store.last_used(token)) for token in store.all()]

    tokens = with_access(options.cluster, read)
    if options.json:
        print(json.dumps([_token_json(*token) for token in tokens], indent=2, ensure_ascii=False))
        return 0
    if not tokens:
        print("There are no tokens. To create one run: accord serve token new")
        return 0
    rows = [("ID", "NAME", "CREATED", "LAST USED", "EXPIRES", "RIGHTS")]
    for token, used in tokens:
        expires = "never" if token.expires is None else _date(token.expires)
        if token.is_expired(time.time()):
            expires = "expired"
        last_used = "never" if used is None else _date(used)
        rows.append(
            (
                token.id,
                visible(token.name) or "-",
                _date(token.created),
                last_used,
                expires,
                describe_rights(token),
            )
        )
    print_table(rows)
    return 0


def _revoke(arguments: Sequence[str]) -> int:
    parser = Parser("accord serve token revoke", _COMMANDS["revoke"][0])
    parser.add_argument(
        "id", nargs="+", metavar="ID", help="id from `accord serve token list`, or a unique name"
    )
    _add_cluster_option(parser)
    options = parser.parse_args(arguments)

    async def revoke(tokens: Tokens, browsers: Browsers, devices: PushDevices) -> None:
        for text in options.id:
            token = await tokens.remove(_token_id(tokens, text))
            browsers.forget(token.id)
            devices.forget(token.id)
            record_token(token, "token revoked")
            print(f"Token {token.id}{_name_suffix(token)} is revoked; its connections are being closed.")

    with_access(options.cluster, revoke)
    return 0


def _add_cluster_option(parser: Parser) -> None:
    parser.option("--cluster URL", "NATS servers of the cluster (default: those of serve.json)")


def with_access(option: str | None, work: AccessWork[T]) -> T:
    """Run this with the tokens of this machine, or with those of the cluster. Raises UsageError."""
    settings = cluster_settings(option)

    async def run() -> T:
        if settings is None:
            return await work(TokenStore(), BrowserLogins(), FilePushDevices())
        from accord.cluster.cluster_access import cluster_access

        async with cluster_access(settings) as access:
            return await work(access.tokens, access.browsers, access.devices)

    return asyncio.run(run())


_COMMANDS: Final[dict[str, tuple[str, Callable[[Sequence[str]], int]]]] = {
    "new": ("create a token and show it once", _new),
    "list": ("list the tokens and when each was last used", _list),
    "revoke": ("revoke tokens and close their connections", _revoke),
}


def record_token(token: Token, event: str) -> None:
    """Write to the audit log that a token was created or revoked by a command."""

    def print_note(text: str) -> None:
        print_stderr(text, command="serve")

    expires = None if token.expires is None else _iso(token.expires)
    AuditLog(on_error=print_note).record(
        token.rights(), event, by="command", scope=describe_rights(token), expires=expires
    )


def _token_id(tokens: Tokens, text: str) -> str:
    """Return the id for an id, a whole token or a unique name."""
    if (match := TOKEN_PATTERN.fullmatch(text)) is not None:
        return match[1]
    ids = [token.id for token in tokens.all() if token.name == text]
    return ids[0] if len(ids) == 1 else text


def _url(text: str | None) -> str:
    if text is None:
        gateways = list_running_gateways()
        return gateways[0].url if gateways else f"http://127.0.0.1:{PORT}"
    if not text.startswith(("http://", "https://")) or split_origin(text.rstrip("/")) is None:
        raise UsageError(f"--url {text!r} is not a gateway address; use for example https://example.org")
    return text.rstrip("/")


def _agent_names(names: list[str], cluster: str | None) -> list[str]:
    """Return the agents' names as used in URLs. Raises UsageError for one that no gateway here can have.

    In a cluster, another node may have it, so an unknown name only gets a note.
    """
    agents = load(".", trust=leave_out)
    served = {name for gateway in list_running_gateways() for name in gateway.agents}
    agent_names: list[str] = []
    for name in names:
        if not name.strip():
            raise UsageError("--agent has an empty value; omit the option or pass a value")
        if name in agents:
            agent_names.append(agents[name].name)
        elif name in served or cluster_settings(cluster) is not None:
            if name not in served:
                print_stderr(f"note: no agent {visible(name)!r} on this machine", command="serve")
            agent_names.append(name)
        else:
            known = ", ".join(sorted({agent.name for agent in agents} | served))
            raise UsageError(
                f"unknown agent {visible(name)!r}; use one of {known}, or run this in the folder of its "
                "acp.json or while the gateway serves it"
            )
    return agent_names


def _name_suffix(token: Token) -> str:
    return f" ({visible(token.name)})" if token.name else ""


def _date(moment: float) -> str:
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")


def _token_json(token: Token, used: float | None) -> dict[str, object]:
    return {
        "id": token.id,
        "name": token.name,
        "created": _iso(token.created),
        "lastUsed": None if used is None else _iso(used),
        "expires": None if token.expires is None else _iso(token.expires),
        "agents": token.agents,
        "folders": token.folders,
        "readOnly": token.read_only,
        "allowMcp": token.rights().may_add_mcp_servers,
        **({"session": token.session} if token.session else {}),
    }


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().isoformat(timespec="seconds")
