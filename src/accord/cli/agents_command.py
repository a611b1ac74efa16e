"""`accord agents`: list, add and remove agents in `acp.json`."""

import difflib
import os
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from accord.cli.command_parser import Parser, folder
from accord.errors import NeverStarted, UsageError
from accord.frontend.agent_config import (
    ConfiguredAgent,
    ConfiguredAgents,
    leave_out,
    load,
    once,
    project_file,
    user_file,
)
from accord.frontend.agent_config.acp_file import FILE_NAME, ConfigChange
from accord.frontend.agent_config.acp_file import add as put_in
from accord.frontend.agent_config.acp_file import remove as take_out
from accord.frontend.agent_config.agent_entry import Origin
from accord.frontend.agent_config.agent_environment import references
from accord.frontend.agent_config.formats import RegistryAgent, read_registry
from accord.frontend.agent_config.project_trust import agree_to
from accord.frontend.known_agents import BUILT_IN, identity, known
from accord.policy.rules import PERMISSION_DEFAULTS
from accord.policy.sandbox.command_environment import is_credential
from accord.policy.trust_store import TrustStore
from accord.safe_text import visible

# MERGED cli.agentfacts: What is told about one agent that can be launched: for people and for programs, with nothing secret in it.

_RUNNERS: Final = ("npx", "uvx")
FROM: Final = {"built-in": "built in", "user": "yours", "project": "project", "catalogue": "known"}
"""Where an agent comes from, in words."""


def facts(server: ConfiguredAgent, servers: ConfiguredAgents) -> Iterable[tuple[str, str]]:
    """Everything about it, a label and a text each; the texts are not cleaned yet."""
    state, command = state_of(server)
    waits = servers.left_out is not None and server in servers.left_out.servers
    yield "name", server.name + (" (default)" if server.name == servers.default.name else "")
    yield (
        "from",
        (server.place or FROM[server.origin]) + (" (not trusted: it does not count)" if waits else ""),
    )
    if server.description:
        yield "description", server.description
    yield "command", command
    yield "state", state if (where := server.installed()) is None else f"{state}: {where}"
    agent = server.known
    if agent is not None and where is None and not server.command:
        yield "to get it", agent.how_to_get
    if agent is not None and agent.remark:
        yield "remark", agent.remark
    if server.cwd is not None:
        yield "cwd", server.cwd
    for name, value in server.env.items():
        yield "env", f"{name} is left out" if value is None else f"{name}={_hidden(name, value)}"
    if server.keys:
        yield "your keys", ", ".join(sorted(_keys_here(server))) or f"none is set of {', '.join(server.keys)}"
    for label, seconds in (("timeout", server.timeout), ("start-up", server.startup)):
        if seconds is not None:
            yield label, f"{seconds:g} s"
    if server.max_restarts is not None:
        yield "restarts", str(server.max_restarts)
    for label, rules in (("permissions", server.permissions), ("of project", server.project_permissions)):
        if rules is not None:
            yield from _rules(label, rules)
    if server.unattended is not None:
        yield "unattended", server.unattended
    for entry in server.mcp:
        yield "MCP server", f"{entry.name}: {shlex.join(entry.command) if entry.command else entry.url}"


def _rules(label: str, rules: Any) -> Iterable[tuple[str, str]]:
    yield label, rules.permission_default or "ask"
    for effect in ("allow", "ask", "deny"):
        for _, rule in rules.rules(effect):
            yield label, f"{effect} {rule}"


def state_of(server: ConfiguredAgent) -> tuple[str, str]:
    """Whether it is here, and its command."""
    command = command_of(server)
    if server.installed() is None:
        return "missing", command
    runner = server.command[0] if server.command and server.command[0] in _RUNNERS else None
    return "ready" if server.origin == "built-in" else f"by {runner}" if runner else "installed", command


def command_of(server: ConfiguredAgent) -> str:
    """How it is started, also where it is not installed; safe to show."""
    if server.origin == "built-in":
        return "accord agent"
    try:
        return visible(shlex.join(server.program()))
    except NeverStarted:
        agent = server.known
        return shlex.join(agent.command) if agent is not None else ""


def as_json(server: ConfiguredAgent, servers: ConfiguredAgents) -> dict[str, Any]:
    """For programs."""
    agent = server.known
    try:
        command = list(server.program())
    except NeverStarted:
        command = list(agent.command) if agent is not None else []
    place = server.installed()
    facts: dict[str, Any] = {
        "name": server.name,
        "from": server.origin,
        "default": server.name == servers.default.name,
        "installed": place,
        "command": command,
        "description": server.description,
    }
    if place is None and agent is not None and not server.command:
        facts["howToGet"] = agent.how_to_get
    if server.place:
        facts["place"] = server.place
    return facts


def _hidden(name: str, value: str) -> str:
    from accord.policy.sandbox.command_environment import is_credential

    return "***" if is_credential(name, value) and not references([value]) else value


def _keys_here(server: ConfiguredAgent) -> set[str]:
    from accord.frontend.agent_config.agent_environment import inherited
    from accord.policy.sandbox.command_environment import without_credentials

    return set(inherited(os.environ, server.keys)) - set(without_credentials(os.environ))


# MERGED cli.agents: `accord agents`: which agents can be launched here, how they get into `acp.json` and out of it, and how to sign in to one.
#
# But for signing in nothing is started, so a project's file needs no agreement to be shown.


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


def _named(servers: ConfiguredAgents, name: str) -> ConfiguredAgent:
    """Also one of a project's file that does not count: showing starts nothing."""
    waiting = servers.left_out.servers if servers.left_out is not None else ()
    found = next((server for server in waiting if identity(server.name) == identity(name)), None)
    return found or servers[name]


def _schema(arguments: Sequence[str]) -> int:
    Parser("accord agents schema", _COMMANDS["schema"][0]).parse_args(arguments)
    sys.stdout.write(files("accord.frontend.agent_config").joinpath("acp.schema.json").read_text("utf-8"))
    return 0


def _trust(arguments: Sequence[str]) -> int:
    from accord.frontend.agent_config.project_trust import ask, forget

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

    return add(arguments)


def _remove(arguments: Sequence[str]) -> int:

    return remove(arguments)


def _login(arguments: Sequence[str]) -> int:
    from accord.cli.agent_login import log_in

    return log_in(arguments)


def _logout(arguments: Sequence[str]) -> int:
    from accord.cli.agent_login import log_out

    return log_out(arguments)


def _setup(arguments: Sequence[str]) -> int:
    from accord.cli.editor_setup import setup

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
    from accord.cli.sessions_command import json_text

    print(json_text(value))


def _print_rows(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[4]]).rstrip())


def _files(servers: ConfiguredAgents) -> str:
    """Which files were read, and where the user's would be."""
    yours = visible(str(user_file()))
    told = f"Yours: {yours}" if servers.user is not None else f"Yours would be {yours}, which is not there"
    project = servers.project or servers.left_out
    if project is None:
        return f"{told}. The project has none."
    return (
        f"{told}. The project's: {visible(str(project.path))}{'' if servers.project else ' (not trusted)'}."
    )


def _say_notes(servers: ConfiguredAgents) -> None:
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


# MERGED cli.agentfile: `accord agents add` and `remove`: agents into the user's or the project's `acp.json`, and out of it.

_NEAR: Final = 3


def add(arguments: Sequence[str]) -> int:
    """`accord agents add`."""
    words = list(arguments)
    command: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, command = words[:cut], words[cut + 1 :]
        if not command:
            raise UsageError("a command is missing behind `--`")
    options = parser("add")
    options.usage = "accord agents add [NAME] [--registry FILE] [OPTIONS] [-- COMMAND ...]"
    options.add_argument("name", nargs="?", help="its name; a well-known agent needs no command")
    options.add_argument(
        "--registry", metavar="FILE", help="take it from a registry.json or agent.json, its version pinned"
    )
    options.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a variable it gets; ${NAME} refers to yours",
    )
    options.add_argument(
        "--permissions", metavar="WORD", help=f"what it may do: {', '.join(PERMISSION_DEFAULTS)}"
    )
    options.add_argument("--description", metavar="TEXT")
    options.add_argument("--timeout-ms", metavar="N", type=int, help="for an ordinary request")
    options.add_argument("--startup-timeout-ms", metavar="N", type=int)
    options.add_argument("--max-restarts", metavar="N", type=int)
    options.add_argument("--default", action="store_true", help="it runs when none is named")
    options.add_argument("--replace", action="store_true", help="put it in the place of one of the same name")
    options.add_argument("--project", action="store_true", help="into the project's acp.json, not into yours")
    given = options.parse_args(words)
    name, entry = _entry(given, command)
    said = _extras(given)
    if "env" in entry and "env" in said:
        said["env"] = {**entry["env"], **said["env"]}
    entry |= said
    if not entry:
        raise UsageError(f"{name} is built in; there is nothing to add without an option")
    path, origin = _file(given)
    change = put_in(path, origin, name, entry, default=given.default, replace=given.replace)
    if origin == "project":
        _agree_to(change)
    print(f"{name} is in {path}: {_told(entry)}")
    return 0


def remove(arguments: Sequence[str]) -> int:
    """`accord agents remove`."""
    options = parser("remove")
    options.add_argument("name", help="the agent to take out")
    options.add_argument(
        "--project", action="store_true", help="out of the project's acp.json, not out of yours"
    )
    given = options.parse_args(arguments)
    path, origin = _file(given)
    change = take_out(path, origin, given.name)
    if origin == "project":
        _agree_to(change)
    print(f"{given.name} is no longer in {path}")
    return 0


def _entry(given: Namespace, command: list[str]) -> tuple[str, dict[str, Any]]:
    if given.registry is not None:
        if command:
            raise UsageError("--registry and a command at the same time make no sense: choose one")
        agent = _of_registry(Path(given.registry).expanduser(), given.name)
        return agent.id, agent.entry()
    if given.name is None:
        raise UsageError("a name is missing: accord agents add NAME -- COMMAND ...")
    if command:
        return given.name, {"command": command[0]} | ({"args": command[1:]} if command[1:] else {})
    if given.name.casefold() == BUILT_IN:
        return BUILT_IN, {}
    agent = known(given.name)
    if agent is None:
        raise UsageError(
            f"{given.name!r} is no well-known agent: accord agents add {shlex.quote(given.name)} -- COMMAND ..."
        )
    line = agent.command
    if agent.found() is None:
        runner = agent.by_runner
        if runner is None or shutil.which(runner[0]) is None:
            raise UsageError(f"{agent.id} is not installed here: {agent.how_to_get}")
        line = runner
    return agent.id, {"command": line[0]} | ({"args": list(line[1:])} if line[1:] else {})


def _of_registry(path: Path, name: str | None) -> RegistryAgent:
    agents = read_registry(path)
    if name is None and len(agents) == 1:
        return next(iter(agents.values()))
    if name is None:
        raise UsageError(f"{path} has {len(agents)} agents: name one of them")
    if name not in agents:
        near = difflib.get_close_matches(name, agents, n=_NEAR)
        hint = f"; did you mean {', '.join(near)}?" if near else f" among its {len(agents)} agents"
        raise UsageError(f"{path}: there is no {name!r}{hint}")
    return agents[name]


def registry_rows(path: Path) -> list[tuple[str, ...]]:
    """The agents of a registry file: id, version, how each can be started, and what it is."""
    rows = [("", "NAME", "VERSION", "STATE", "AGENT")]
    for agent in read_registry(path).values():
        try:
            state = f"by {agent.entry()['command']}"
        except UsageError:
            state = "not here"
        about = f"{agent.name}: {agent.description}" if agent.description else agent.name
        rows.append(("", agent.id, agent.version, state, visible(about)))
    return rows


def _extras(given: Namespace) -> dict[str, Any]:
    env: dict[str, str] = {}
    for pair in given.env:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--env {pair!r} is not NAME=VALUE")
        if given.project and is_credential(name, value) and not references([value]):
            raise UsageError(
                f"--env {name}: a key does not belong in a project's file: write --env '{name}=${{{name}}}'"
            )
        env[name] = value
    said = {
        "env": env or None,
        "permissions": given.permissions,
        "description": given.description,
        "timeoutMs": given.timeout_ms,
        "startupTimeoutMs": given.startup_timeout_ms,
        "maxRestarts": given.max_restarts,
    }
    return {key: value for key, value in said.items() if value is not None}


def _file(given: Namespace) -> tuple[Path, Origin]:
    cwd = Path(folder("--cwd", given.cwd))
    if not given.project:
        return user_file(), "user"
    return project_file(cwd) or cwd / FILE_NAME, "project"


def _agree_to(change: ConfigChange) -> None:
    """What counted before the user changed it by this command still does afterwards."""
    before, after = change.before, change.after
    if before is None or TrustStore().is_trusted(before.path, before.content):
        agree_to(after)


def _told(entry: dict[str, Any]) -> str:
    if "command" not in entry:
        return "its command is the known one"
    return visible(shlex.join([entry["command"], *entry.get("args", [])]))
