"""`accord agents`: which agents can be launched here, how they get into `acp.json` and out of it, and how to sign in to one.

But for signing in nothing is started, so a project's file needs no agreement to be shown.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from accord.cleaning import visible
from accord.cli.agentfacts import FROM, as_json, command_of, facts, state_of
from accord.cli.folders import folder
from accord.cli.parser import Parser
from accord.client.catalogue import identity
from accord.client.servers import Server, Servers, leave_out, load, once, user_file
from accord.errors import UsageError


def main(arguments: Sequence[str]) -> int:
    """Run one of the subcommands."""
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help", "help"):
        print(_help())
        return 0 if arguments else 2
    command = _COMMANDS.get(name)
    if command is None:
        raise UsageError(f"there is no {name!r}; there are: {', '.join(_COMMANDS)}")
    return command[1](arguments[1:])


def parser(name: str) -> Parser:
    """The parser of a subcommand, with what all of them take that look at a folder."""
    made = Parser(f"accord agents {name}", _COMMANDS[name][0])
    made.add_argument("--cwd", metavar="DIR", default=".", help="the folder whose project counts")
    return made


def trust_option(made: Parser) -> None:
    """Let a project's file count without a question."""
    made.add_argument(
        "--trust", action="store_true", help="let the project's acp.json count, in this run only"
    )


def _list(arguments: Sequence[str]) -> int:
    options = parser("list")
    options.add_argument("--json", action="store_true", help="one object an agent, in a list")
    options.add_argument("--registry", metavar="FILE", help="the agents of a registry.json instead")
    trust_option(options)
    given = options.parse_args(arguments)
    if given.registry is not None:
        from accord.cli.agentfile import registry_rows

        _print_rows(registry_rows(Path(given.registry).expanduser()))
        return 0
    servers = load(folder("--cwd", given.cwd), trust=once if given.trust else leave_out)
    if given.json:
        _print_json([as_json(server, servers) for server in servers])
        return 0
    default = servers.default.name
    rows = [
        ("*" if server.name == default else " ", visible(server.name), FROM[server.origin], *state_of(server))
        for server in servers.configured
    ]
    if servers.left_out is not None:
        rows += [
            (" ", visible(server.name), "project", "not trusted", command_of(server))
            for server in servers.left_out.servers
        ]
    known = [(" ", server.name, visible(server.description), *state_of(server)) for server in servers.others]
    _print_rows([("", "NAME", "FROM", "STATE", "COMMAND"), *rows])
    print(f"\n{_files(servers)}")
    print(
        "\nKnown agents: an installed one runs by its name, `accord agents show NAME` tells how to get another."
    )
    _print_rows([("", "NAME", "AGENT", "STATE", "COMMAND"), *known])
    _say_notes(servers)
    return 0


def _show(arguments: Sequence[str]) -> int:
    options = parser("show")
    options.add_argument("name", nargs="?", help="the agent; without it the default one")
    options.add_argument("--json", action="store_true", help="as one object")
    trust_option(options)
    given = options.parse_args(arguments)
    servers = load(folder("--cwd", given.cwd), trust=once if given.trust else leave_out)
    server = servers.default if given.name is None else _named(servers, given.name)
    if given.json:
        _print_json(as_json(server, servers))
        return 0
    for label, text in facts(server, servers):
        print(f"{label + ':':<13} {visible(text)}")
    return 0


def _named(servers: Servers, name: str) -> Server:
    """Also one of a project's file that does not count: showing starts nothing."""
    waiting = servers.left_out.servers if servers.left_out is not None else ()
    found = next((server for server in waiting if identity(server.name) == identity(name)), None)
    return found or servers[name]


def _schema(arguments: Sequence[str]) -> int:
    Parser("accord agents schema", _COMMANDS["schema"][0]).parse_args(arguments)
    sys.stdout.write(files("accord.client.servers").joinpath("acp.schema.json").read_text("utf-8"))
    return 0


def _trust(arguments: Sequence[str]) -> int:
    from accord.client.servers.trusting import ask, forget

    options = parser("trust")
    options.add_argument("--forget", action="store_true", help="agree to it no longer")
    given = options.parse_args(arguments)
    servers = load(folder("--cwd", given.cwd), trust=leave_out)
    file = servers.project or servers.left_out
    if file is None:
        raise UsageError("there is no acp.json in this project")
    if given.forget:
        forget(file)
        print(f"{file.path} does not count any more")
        return 0
    if servers.project is not None:
        print(f"{file.path} counts: you agreed to it as it is")
        return 0
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{file.path}: you have not agreed to it, and only a terminal can ask you")
    return 0 if ask(file) else 1


def _add(arguments: Sequence[str]) -> int:
    from accord.cli.agentfile import add

    return add(arguments)


def _remove(arguments: Sequence[str]) -> int:
    from accord.cli.agentfile import remove

    return remove(arguments)


def _login(arguments: Sequence[str]) -> int:
    from accord.cli.signing import log_in

    return log_in(arguments)


def _logout(arguments: Sequence[str]) -> int:
    from accord.cli.signing import log_out

    return log_out(arguments)


def _setup(arguments: Sequence[str]) -> int:
    from accord.cli.editors.setup import setup

    return setup(arguments)


_COMMANDS: Final[dict[str, tuple[str, Callable[[Sequence[str]], int]]]] = {
    "list": ("The agents that can be launched here, and the well-known ones.", _list),
    "show": ("Everything about one agent.", _show),
    "add": ("Put an agent into acp.json.", _add),
    "remove": ("Take an agent out of acp.json.", _remove),
    "trust": ("Look at the project's acp.json and agree to it.", _trust),
    "schema": ("Print the JSON Schema of acp.json.", _schema),
    "login": ("Sign in to an agent, by one of the ways it offers.", _login),
    "logout": ("Sign out of an agent.", _logout),
    "setup": ("Make an editor launch `accord agent`.", _setup),
}


def _print_json(value: Any) -> None:
    from accord.cli.stored.form import json_text

    print(json_text(value))


def _print_rows(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[4]]).rstrip())


def _files(servers: Servers) -> str:
    """Which files were read, and where the user's would be."""
    yours = visible(str(user_file()))
    told = f"Yours: {yours}" if servers.user is not None else f"Yours would be {yours}, which is not there"
    project = servers.project or servers.left_out
    if project is None:
        return f"{told}. The project has none."
    return (
        f"{told}. The project's: {visible(str(project.path))}{'' if servers.project else ' (not trusted)'}."
    )


def _say_notes(servers: Servers) -> None:
    for note in servers.notes:
        print(f"accord agents: note: {visible(note)}", file=sys.stderr)
    if servers.left_out is not None:
        path = visible(str(servers.left_out.path))
        print(
            f"accord agents: note: {path} does not count until you agree to it: accord agents trust",
            file=sys.stderr,
        )


def _help() -> str:
    width = max(map(len, _COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, (summary, _) in _COMMANDS.items()]
    return "\n".join(["usage: accord agents COMMAND   (accord agents COMMAND --help tells more)", "", *lines])
