"""The subcommands of `accord serve`: `token`, `audit` and `notify`; the lines that the start prints.

A running gateway sees changes of the tokens at once, and in a cluster all nodes do.

Imported on first use: it loads accord.gateway.
"""

import asyncio
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from pathlib import Path
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
from accord.cli.exit_codes import FAILED
from accord.cli.serve_command import (
    PORT,
    add_target_options,
    cluster_settings,
    notification_settings,
    parse_duration,
)
from accord.clock import SYSTEM_CLOCK
from accord.errors import AccordError, UsageError
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
from accord.gateway.access.audit_log import AuditBroken, AuditLog, VerifiedAudit, audit_file, verify_audit_log
from accord.gateway.access.browser_logins import BrowserLogins
from accord.gateway.access.push_devices import FilePushDevices, PushDevice
from accord.gateway.access.request_origin import is_loopback, machine_address, split_origin
from accord.gateway.notifications.notification_settings import shown_url
from accord.gateway.notifications.notification_targets import Target
from accord.gateway.notifications.notifier import Notifier
from accord.gateway.running_gateways import list_running_gateways
from accord.safe_text import visible
from accord.text_width import count_text

T = TypeVar("T")
AccessWork: TypeAlias = Callable[[Tokens, Browsers, PushDevices], Coroutine[Any, Any, T]]

_MAX_NAME_LENGTH: Final = 64


def run_subcommand(name: str, arguments: Sequence[str]) -> int:
    """Run `accord serve token`, `audit` or `notify` and return the exit code."""
    return {"token": _token, "audit": _audit, "notify": _notify}[name](arguments)


def _token(arguments: Sequence[str]) -> int:
    """Create, list or revoke tokens."""
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


_VERIFY: Final = "check the hashes of the audit log and name the first broken line"


def _audit(arguments: Sequence[str]) -> int:
    """Check that the audit log of the gateway is complete and unchanged."""
    if find_subcommand("accord serve audit", {"verify": (_VERIFY,)}, arguments) is None:
        return 0 if arguments else 2
    return _verify(arguments[1:])


def _verify(arguments: Sequence[str]) -> int:
    parser = Parser("accord serve audit verify", _VERIFY)
    parser.option("--expect HASH", "hash that an earlier check printed; must be in the log")
    parser.option("--file F", "log to check (default: the audit log of the gateway)")
    options = parser.parse_args(arguments)
    if options.expect is not None and not re.fullmatch("[0-9a-f]{64}", options.expect):
        raise UsageError(f"--expect {options.expect!r} is not a hash; it has 64 hexadecimal digits")
    path = audit_file() if options.file is None else Path(options.file).absolute()
    try:
        verified = verify_audit_log(path, expect=options.expect)
    except AuditBroken as error:
        print_stderr(f"the audit log is broken: {error}", command="serve")
        return FAILED
    _print_result(path, verified)
    return 0


def _print_result(path: Path, verified: VerifiedAudit) -> None:
    files = "" if verified.files == 1 else f" in {verified.files} files"
    print(f"{path}: {count_text(verified.lines, 'line')}{files}, none changed or removed.")
    if verified.first > 1:
        print(f"It begins with number {verified.first}: rotation has removed older files.")
    if verified.unhashed:
        unhashed = count_text(verified.unhashed, "line")
        print(f"Not checked: {unhashed} of a version without hashes.")
    if verified.last is not None:
        print(f"Last line: number {verified.last.seq}, hash {verified.last.hash}")
        if not verified.has_head:
            print(f"{path}.lock is missing, so lines removed at the end would not be noticed.")


_NO_TARGETS: Final = (
    "There is nothing to notify. Turn notifications on in the page, or name a topic or a webhook in "
    "serve.json; see the documentation of notifications."
)


def _notify(arguments: Sequence[str]) -> int:
    """Send a test notification to everything that gets notifications."""
    parser = Parser("accord serve notify", "Send a test notification to all devices, topics and webhooks.")
    add_target_options(parser)
    parser.option("--cluster URL", "NATS servers of the cluster (default: those of serve.json)")
    options = parser.parse_args(arguments)
    settings = notification_settings(options)

    async def send(tokens: Tokens, _: Browsers, devices: PushDevices) -> list[tuple[str, str]]:
        notifier = Notifier(settings, devices, tokens, lambda rights: 0, clock=SYSTEM_CLOCK)
        try:
            targets: list[Target | PushDevice] = [*notifier.own_targets(), *devices.all()]
            return [(_target_name(target, tokens), await _send_test(notifier, target)) for target in targets]
        finally:
            await notifier.aclose()

    results = with_access(options.cluster, send)
    for name, error in results:
        print(f"{name}: {f'failed: {visible(error)}' if error else 'sent'}")
    if not results:
        print(_NO_TARGETS)
    return FAILED if not results or any(error for _, error in results) else 0


def _target_name(target: Target | PushDevice, tokens: Tokens) -> str:
    if not isinstance(target, PushDevice):
        return target.name
    token = tokens.get(target.token)
    name = f" ({visible(token.name)})" if token is not None and token.name else ""
    return f"browser of token {target.token}{name} at {shown_url(target.endpoint)}"


async def _send_test(notifier: Notifier, target: Target | PushDevice) -> str:
    try:
        return await notifier.send_test(target)
    except (AccordError, OSError) as error:
        return str(error)
