"""`accord serve token`: create, list, revoke; the link and the first token that `serve` prints.

Imported on first use.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from accord.cli.command_parser import Parser, told_folder
from accord.cli.serve_command import PORT, seconds_of
from accord.errors import UsageError
from accord.frontend.agent_config import leave_out, load
from accord.gateway.access.access_tokens import TOKEN_PATTERN, Token, TokenStore, pairing_link, qr_code
from accord.gateway.access.browser_logins import BrowserLogins
from accord.gateway.access.request_origin import split_origin
from accord.gateway.running_gateways import all_running
from accord.safe_text import visible

# MERGED cli.serving.greeting: What `accord serve` says on stdout: where it listens, which agents it has, and the link with the first token.


def show_link(url: str, token: str, *, qr: bool) -> None:
    """The link, and on a terminal that is large enough its QR code."""
    text = pairing_link(url, token)
    print(f"  {text}")
    if qr and _is_terminal():
        code = qr_code(text, shutil.get_terminal_size().columns - 2)
        if code is not None:
            print()
            for line in code:
                print(f"  {line}")


def greet(listening: Sequence[str], agents: Sequence[str], notes: Sequence[str]) -> None:
    """The first lines. The first agent is the default one."""
    print(f"accord serve: listening on {', '.join(listening)}")
    names = [visible(name) for name in agents]
    print(f"Agents: {', '.join([f'{names[0]} (default)', *names[1:]])}")
    for note in notes:
        print(note)


def show_first_token(url: str, token: str, *, qr: bool) -> None:
    """For the very first start."""
    print("\nOpen this link, or scan it. It holds a new token and is shown this once:\n")
    show_link(url, token, qr=qr)
    print("\nAnother device or program gets a token of its own: accord serve token new")


def may_show_token() -> bool:
    """Whether somebody reads our output now: a journal keeps it, where a token must not stand, and it may be closed."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - the caller closed it
        return False
    return _is_terminal() or not os.environ.get("JOURNAL_STREAM")


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]


# MERGED cli.serving.tokens: `accord serve token`: make, list and revoke tokens. A gateway that runs sees it at once.

_LONGEST_NAME: Final = 64


def main(arguments: Sequence[str]) -> int:
    """Run one of the three."""
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help", "help"):
        width = max(map(len, _COMMANDS))
        print("usage: accord serve token COMMAND   (accord serve token COMMAND --help tells more)\n")
        print("\n".join(f"  {name:<{width}}  {summary}" for name, (summary, _) in _COMMANDS.items()))
        return 0 if arguments else 2
    command = _COMMANDS.get(name)
    if command is None:
        raise UsageError(f"there is no token {name!r}; there are: {', '.join(_COMMANDS)}")
    return command[1](arguments[1:])


def _new(arguments: Sequence[str]) -> int:
    options = Parser("accord serve token new", _COMMANDS["new"][0])
    option = options.add_argument
    option("--name", metavar="N", default="", help="what the list and the audit log call it")
    option("--agent", metavar="A", action="append", help="only this agent; may be repeated")
    option("--folder", metavar="D", action="append", help="only this folder and below; may be repeated")
    option("--read-only", action="store_true", help="look on, change nothing")
    option("--expires", metavar="TIME", help="it ends after so long, such as 12h, 30d or 8w")
    option("--url", metavar="URL", help="what the link begins with; else that of the gateway that runs")
    option("--no-qr", action="store_true", help="the link alone")
    option("--plain", action="store_true", help="the token alone, for scripts")
    given = options.parse_args(arguments)
    name = given.name.strip()
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise UsageError(f"--name is for up to {_LONGEST_NAME} letters that can be shown")
    url = _url(given.url)
    token, text = TokenStore().new(
        name,
        agents=None if given.agent is None else _agents(given.agent),
        folders=None if given.folder is None else [told_folder("--folder", text) for text in given.folder],
        read_only=given.read_only,
        expires=None if given.expires is None else time.time() + seconds_of("--expires", given.expires),
    )
    if given.plain:
        print(text)
        return 0
    print(f"Token {token.id}{_called(token)}: {scope(token)}. It is shown this once:\n\n  {text}\n")
    print("Open this link to log a browser in, or scan it:\n")
    show_link(url, text, qr=not given.no_qr)
    if given.url is None and not all_running():
        print("\nNo gateway runs now: the link is for one at its usual place; --url names another.")
    return 0


def _list(arguments: Sequence[str]) -> int:
    options = Parser("accord serve token list", _COMMANDS["list"][0])
    options.add_argument("--json", action="store_true", help="one object a token, in a list")
    given = options.parse_args(arguments)
    tokens = TokenStore()
    found = tokens.all()
    if given.json:
        print(json.dumps([_as_json(tokens, token) for token in found], indent=2, ensure_ascii=False))
        return 0
    if not found:
        print("There are no tokens: `accord serve token new` makes one.")
        return 0
    rows = [("ID", "NAME", "MADE", "LAST USED", "EXPIRES", "MAY")]
    for token in found:
        expires = "never" if token.expires is None else _day(token.expires)
        if token.is_expired(time.time()):
            expires = "expired"
        used = tokens.last_used(token)
        last = "never" if used is None else _day(used)
        rows.append((token.id, visible(token.name) or "-", _day(token.created), last, expires, scope(token)))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[5]]).rstrip())
    return 0


def _revoke(arguments: Sequence[str]) -> int:
    options = Parser("accord serve token revoke", _COMMANDS["revoke"][0])
    options.add_argument(
        "id", nargs="+", metavar="ID", help="of `accord serve token list`; a name that only one has"
    )
    for text in options.parse_args(arguments).id:
        token = TokenStore().revoke(_meant(text))
        BrowserLogins().forget(token.id)
        print(f"Token {token.id}{_called(token)} lets nobody in any more; its connections are being closed.")
    return 0


_COMMANDS: Final[dict[str, tuple[str, Callable[[Sequence[str]], int]]]] = {
    "new": ("Make a token and show it once.", _new),
    "list": ("The tokens there are, and when each was used last.", _list),
    "revoke": ("Let nobody in with a token any more, at once.", _revoke),
}


def scope(token: Token) -> str:
    """What it may do, in words."""
    agents = "every agent" if token.agents is None else "agents " + ", ".join(map(visible, token.agents))
    folders = "every folder" if token.folders is None else ", ".join(map(visible, token.folders))
    return f"{'looks at' if token.read_only else 'uses'} {agents} in {folders}"


def _meant(text: str) -> str:
    """The id, also of a whole token that was pasted, or of a name."""
    if (whole := TOKEN_PATTERN.fullmatch(text)) is not None:
        return whole[1]
    named = [token.id for token in TokenStore().all() if token.name == text]
    return named[0] if len(named) == 1 else text


def _url(text: str | None) -> str:
    if text is None:
        found = all_running()
        return found[0].url if found else f"http://127.0.0.1:{PORT}"
    if not text.startswith(("http://", "https://")) or split_origin(text.rstrip("/")) is None:
        raise UsageError(f"--url {text!r} is no address of a gateway: write it as https://example.org")
    return text.rstrip("/")


def _agents(names: list[str]) -> list[str]:
    """As they are called in addresses. One that is unknown here may be of another folder or of a command: that is said."""
    servers = load(".", trust=leave_out)
    found: list[str] = []
    for name in names:
        if not name.strip():
            raise UsageError("--agent was given an empty value: leave it out, or name one")
        if name in servers:
            found.append(servers[name].name)
        else:
            print(f"accord serve: note: no agent is called {visible(name)!r} in this folder", file=sys.stderr)
            found.append(name)
    return found


def _called(token: Token) -> str:
    return f" ({visible(token.name)})" if token.name else ""


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")


def _as_json(tokens: TokenStore, token: Token) -> dict[str, object]:
    used = tokens.last_used(token)
    return {
        "id": token.id,
        "name": token.name,
        "created": _iso(token.created),
        "lastUsed": None if used is None else _iso(used),
        "expires": None if token.expires is None else _iso(token.expires),
        "agents": token.agents,
        "folders": token.folders,
        "readOnly": token.read_only,
    }


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().isoformat(timespec="seconds")
