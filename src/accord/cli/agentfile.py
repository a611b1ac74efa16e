"""`accord agents add` and `remove`: agents into the user's or the project's `acp.json`, and out of it."""

import difflib
import shlex
import shutil
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from accord.cleaning import visible
from accord.cli.agents import parser
from accord.cli.folders import folder
from accord.client.catalogue import BUILT_IN, known
from accord.client.servers import project_file, user_file
from accord.client.servers.environment import references
from accord.client.servers.reading import FILE_NAME
from accord.client.servers.registry import RegistryAgent, read_registry
from accord.client.servers.server import Origin
from accord.client.servers.trusting import agree_to
from accord.client.servers.writing import Change
from accord.client.servers.writing import add as put_in
from accord.client.servers.writing import remove as take_out
from accord.errors import UsageError
from accord.policy.rules import WORDS
from accord.policy.sandbox.environment import is_credential
from accord.policy.trust import Trust

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
    options.add_argument("--permissions", metavar="WORD", help=f"what it may do: {', '.join(WORDS)}")
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


def _agree_to(change: Change) -> None:
    """What counted before the user changed it by this command still does afterwards."""
    before, after = change.before, change.after
    if before is None or Trust().is_trusted(before.path, before.content):
        agree_to(after)


def _told(entry: dict[str, Any]) -> str:
    if "command" not in entry:
        return "its command is the known one"
    return visible(shlex.join([entry["command"], *entry.get("args", [])]))
