"""`accord agents`: list, show, add and remove agents, trust a project's `acp.json`, sign in, set up editors.

Only `login` and `logout` start an agent. The other subcommands also show agents of an untrusted `acp.json`.
"""

import os
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.cli.command_parser import (
    Parser,
    add_trust_option,
    existing_folder,
    find_subcommand,
    is_terminal,
    json_text,
    print_stderr,
    print_table,
    split_command,
    split_env,
)
from accord.errors import NeverStarted, UsageError
from accord.frontend.agent_config import (
    ConfiguredAgent,
    ConfiguredAgents,
    McpEntry,
    leave_out,
    load,
    once,
    project_file,
    user_file,
)
from accord.frontend.agent_config.acp_file import FILE_NAME, ConfigChange
from accord.frontend.agent_config.acp_file import add as add_entry
from accord.frontend.agent_config.acp_file import remove as remove_entry
from accord.frontend.agent_config.agent_entry import Origin
from accord.frontend.agent_config.agent_environment import inherited_environment, referenced_variables
from accord.frontend.agent_config.project_trust import trust_file
from accord.frontend.agent_config.registry_file import RegistryAgent, find_registry_agent, read_registry
from accord.frontend.known_agents import BUILT_IN, canonical_name, find_known_agent
from accord.policy.rules import PERMISSION_DEFAULTS, Rules
from accord.policy.sandbox.command_environment import is_credential, without_credentials
from accord.policy.trust_store import TrustStore
from accord.safe_text import visible
from accord.trace.redaction import command_line_text, redact_command
from accord.trace.text_redaction import redact_text

_RUNNERS: Final = ("npx", "uvx")
_ORIGIN_LABELS: Final[dict[str, str]] = {
    "built-in": "built in",
    "user": "yours",
    "project": "project",
    "catalogue": "known",  # a published value of `list --json`: do not change the spelling
}


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand and return the exit code."""
    name = find_subcommand("accord agents", _COMMANDS, arguments)
    if name is None:
        return 0 if arguments else 2
    return _COMMANDS[name][1](arguments[1:])


def registry_rows(path: Path) -> list[tuple[str, ...]]:
    """Return the table of a registry file's agents: id, version, how to start it, description."""
    rows = [("", "NAME", "VERSION", "STATE", "AGENT")]
    for agent in read_registry(path).values():
        try:
            state = f"by {agent.entry()['command']}"
        except UsageError:
            state = "no package"
        description = f"{agent.name}: {agent.description}" if agent.description else agent.name
        rows.append(("", agent.id, agent.version, state, visible(description)))
    return rows


def _parser(name: str, *, cwd: bool = True) -> Parser:
    parser = Parser(f"accord agents {name}", _COMMANDS[name][0])
    if cwd:
        parser.option(
            "--cwd DIR", "folder whose project's acp.json to use (default: the current one)", default="."
        )
    return parser


def _list(arguments: Sequence[str]) -> int:
    parser = _parser("list")
    parser.option("--json", "print a JSON array with one object per agent")
    parser.option("--registry FILE", "list the agents of a registry.json instead")
    add_trust_option(parser)
    options = parser.parse_args(arguments)
    if options.registry is not None:
        print_table(registry_rows(Path(options.registry).expanduser()))
        return 0
    agents = load(existing_folder("--cwd", options.cwd), trust=once if options.trust else leave_out)
    if options.json:
        print(json_text([_agent_json(agent, agents) for agent in agents]))
        return 0
    default = agents.default.name
    from accord.frontend.agent_config.installed_agents import read_pins

    pins = read_pins()
    rows = [
        (
            "*" if agent.name == default else " ",
            visible(agent.name),
            _ORIGIN_LABELS[agent.origin],
            f"{_state(agent)} {pins[agent.name].version}"
            if agent.origin == "user" and agent.name in pins
            else _state(agent),
            _command_text(agent),
        )
        for agent in agents.configured
    ]
    if agents.untrusted_file is not None:
        rows += [
            (" ", visible(agent.name), "project", "not trusted", _command_text(agent))
            for agent in agents.untrusted_file.agents
        ]
    known_rows = [
        (" ", agent.name, visible(agent.description), _state(agent), _command_text(agent))
        for agent in agents.known_only
    ]
    print_table([("", "NAME", "FROM", "STATE", "COMMAND"), *rows])
    print(f"\n{_config_files(agents)}")
    print(
        "\nKnown agents. Use an installed one by its name; `accord agents show NAME` says how to install one."
    )
    print_table([("", "NAME", "AGENT", "STATE", "COMMAND"), *known_rows])
    _print_notes(agents)
    return 0


def _show(arguments: Sequence[str]) -> int:
    parser = _parser("show")
    parser.add_argument("name", nargs="?", help="name of the agent (default: the default agent)")
    parser.option("--json", "print a JSON object")
    add_trust_option(parser)
    options = parser.parse_args(arguments)
    agents = load(existing_folder("--cwd", options.cwd), trust=once if options.trust else leave_out)
    agent = agents.default if options.name is None else _find(agents, options.name)
    if options.json:
        print(json_text(_details_json(agent, agents)))
        return 0
    for label, text in _details(agent, agents):
        print(f"{label + ':':<13} {visible(text)}")
    return 0


def _find(agents: ConfiguredAgents, name: str) -> ConfiguredAgent:
    """Find an agent by name, also in an untrusted file: showing it starts nothing."""
    untrusted = agents.untrusted_file.agents if agents.untrusted_file is not None else ()
    found = next((agent for agent in untrusted if canonical_name(agent.name) == canonical_name(name)), None)
    return found or agents[name]


def _details(agent: ConfiguredAgent, agents: ConfiguredAgents) -> Iterable[tuple[str, str]]:
    """Yield the lines of `show` as labels and texts. Secrets are hidden; the texts are not cleaned yet."""
    yield "name", agent.name + (" (default)" if agent.name == agents.default.name else "")
    source = agent.config_location or _ORIGIN_LABELS[agent.origin]
    yield "from", f"{source} (not trusted, ignored)" if _is_untrusted(agent, agents) else source
    if agent.description:
        yield "description", agent.description
    yield "command", _command_text(agent)
    state, path = _state(agent), agent.installed()
    yield "state", state if path is None else f"{state}: {path}"
    known_agent = agent.known
    if install_hint := _install_hint(agent):
        yield "to install", install_hint
    if known_agent is not None and known_agent.remark:
        yield "remark", known_agent.remark
    if agent.cwd is not None:
        yield "cwd", agent.cwd
    for name, value in agent.env.items():
        yield "env", f"{name} is removed" if value is None else f"{name}={_hide_secret(name, value)}"
    if agent.keys:
        available = ", ".join(sorted(_available_keys(agent)))
        yield "your keys", available or f"none of {', '.join(agent.keys)} is set"
    limits = (("timeout", agent.timeout), ("start-up", agent.startup), ("cancel", agent.cancel))
    for label, seconds in limits:
        if seconds is not None:
            yield label, f"{seconds:g} s"
    if agent.max_restarts is not None:
        yield "restarts", str(agent.max_restarts)
    for label, rules in (("permissions", agent.permissions), ("of project", agent.project_permissions)):
        if rules is not None:
            yield from _rule_lines(label, rules)
    if agent.unattended is not None:
        yield "unattended", agent.unattended
    for entry in agent.mcp:
        yield "MCP server", f"{entry.name}: {_server_text(entry)}"


def _server_text(entry: McpEntry) -> str:
    """Return the command line or the address of an MCP server, without secrets."""
    return command_line_text(entry.command) if entry.command else redact_text(entry.url)


def _rule_lines(label: str, rules: Rules) -> Iterable[tuple[str, str]]:
    yield label, rules.permission_default or "ask"
    for effect in ("allow", "ask", "deny"):
        for _, rule in rules.rules(effect):
            yield label, f"{effect} {rule}"


def _state(agent: ConfiguredAgent) -> str:
    """Return the state as one or two words. They are published values of `show --json`."""
    if agent.installed() is None:
        return "missing"
    if agent.origin == "built-in":
        return "ready"
    return f"by {agent.command[0]}" if agent.command and agent.command[0] in _RUNNERS else "installed"


def _command_text(agent: ConfiguredAgent) -> str:
    """Return the command line of an agent, installed or not, safe to print."""
    if agent.origin == "built-in":
        return "accord agent"
    return visible(command_line_text(_command(agent)))


def _command(agent: ConfiguredAgent) -> tuple[str, ...]:
    """Return the command of an agent, installed or not."""
    try:
        return agent.start_command()
    except NeverStarted:
        return agent.known.command if agent.known is not None else ()


def _install_hint(agent: ConfiguredAgent) -> str:
    """Say how to install a known agent that is missing; empty for all others."""
    known_agent = agent.known
    if known_agent is None or agent.command or agent.installed() is not None:
        return ""
    return known_agent.install_hint


def _is_untrusted(agent: ConfiguredAgent, agents: ConfiguredAgents) -> bool:
    return agents.untrusted_file is not None and agent in agents.untrusted_file.agents


def _agent_json(agent: ConfiguredAgent, agents: ConfiguredAgents) -> dict[str, Any]:
    members: dict[str, Any] = {
        "name": agent.name,
        "from": agent.origin,
        "default": agent.name == agents.default.name,
        "installed": agent.installed(),
        "command": redact_command(_command(agent)),
        "description": agent.description,
    }
    if install_hint := _install_hint(agent):
        members["howToGet"] = install_hint
    if agent.config_location:
        members["place"] = agent.config_location
    return members


def _details_json(agent: ConfiguredAgent, agents: ConfiguredAgents) -> dict[str, Any]:
    """Return everything that `show` prints, with the keys of `acp.json`. Secrets are hidden."""
    details: dict[str, Any] = {
        "state": _state(agent),
        "trusted": not _is_untrusted(agent, agents),
        "remark": agent.known.remark if agent.known is not None and agent.known.remark else None,
        "cwd": agent.cwd,
        "env": {
            name: None if value is None else _hide_secret(name, value) for name, value in agent.env.items()
        },
        "keysSet": sorted(_available_keys(agent)),
        "timeoutMs": None if agent.timeout is None else round(agent.timeout * 1000),
        "startupTimeoutMs": None if agent.startup is None else round(agent.startup * 1000),
        "cancelTimeoutMs": None if agent.cancel is None else round(agent.cancel * 1000),
        "maxRestarts": agent.max_restarts,
        "permissions": _rules_json(agent.permissions),
        "projectPermissions": _rules_json(agent.project_permissions),
        "unattended": agent.unattended,
        "mcpServers": [
            {"name": entry.name, "command": redact_command(entry.command)}
            if entry.command
            else {"name": entry.name, "url": redact_text(entry.url)}
            for entry in agent.mcp
        ],
    }
    return _agent_json(agent, agents) | details


def _rules_json(rules: Rules | None) -> dict[str, Any] | None:
    if rules is None:
        return None
    lists = {
        effect: [msgspec.to_builtins(rule) for _, rule in rules.rules(effect)]
        for effect in ("allow", "ask", "deny")
    }
    return {"default": rules.permission_default or "ask", **lists}


def _hide_secret(name: str, value: str) -> str:
    return "***" if _is_plain_credential(name, value) else value


def _is_plain_credential(name: str, value: str) -> bool:
    """Whether the value is a credential itself, not a reference to a variable."""
    return is_credential(name, value) and not referenced_variables([value])


def _available_keys(agent: ConfiguredAgent) -> set[str]:
    """Return the names of the agent's key variables that are set in this environment."""
    return set(inherited_environment(os.environ, agent.keys)) - set(without_credentials(os.environ))


def _schema(arguments: Sequence[str]) -> int:
    Parser("accord agents schema", _COMMANDS["schema"][0]).parse_args(arguments)
    sys.stdout.write(files("accord.frontend.agent_config").joinpath("acp.schema.json").read_text("utf-8"))
    return 0


def _trust(arguments: Sequence[str]) -> int:
    from accord.frontend.agent_config.project_trust import ask, forget

    parser = _parser("trust")
    parser.option("--forget", "stop trusting the file")
    options = parser.parse_args(arguments)
    agents = load(existing_folder("--cwd", options.cwd), trust=leave_out)
    file = agents.project or agents.untrusted_file
    if file is None:
        raise UsageError("this project has no acp.json; run `accord agents add --project` to create one")
    if options.forget:
        forget(file)
        print(f"{file.path} is no longer trusted")
        return 0
    if agents.project is not None:
        print(f"{file.path} is already trusted")
        return 0
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError(f"{file.path} is not trusted; run `accord agents trust` in a terminal to review it")
    return 0 if ask(file) else 1


def _login(arguments: Sequence[str]) -> int:
    from accord.cli.agent_login import log_in

    return log_in(_parser("login"), arguments)


def _logout(arguments: Sequence[str]) -> int:
    from accord.cli.agent_login import log_out

    return log_out(_parser("logout"), arguments)


def _install(arguments: Sequence[str]) -> int:
    from accord.cli.agents_install import install

    return install(_parser("install", cwd=False), arguments)


def _update(arguments: Sequence[str]) -> int:
    from accord.cli.agents_install import update

    return update(_parser("update", cwd=False), arguments)


def _import(arguments: Sequence[str]) -> int:
    from accord.cli.agents_import import import_agents

    return import_agents(_parser("import"), arguments)


def _setup(arguments: Sequence[str]) -> int:
    from accord.cli.editor_setup import setup

    return setup(arguments)


def _config_files(agents: ConfiguredAgents) -> str:
    """Say which `acp.json` files were read."""
    path = visible(str(user_file()))
    user = f"User file: {path}" if agents.user is not None else f"User file: {path} (does not exist)"
    project = agents.project or agents.untrusted_file
    if project is None:
        return f"{user}. Project file: none."
    return f"{user}. Project file: {visible(str(project.path))}{'' if agents.project else ' (not trusted)'}."


def _print_notes(agents: ConfiguredAgents) -> None:
    for note in agents.notes:
        print_stderr(f"note: {visible(note)}", command="agents")
    if agents.untrusted_file is not None:
        path = visible(str(agents.untrusted_file.path))
        note = f"note: {path} is not trusted; run `accord agents trust` to use it"
        print_stderr(note, command="agents")


def _add(arguments: Sequence[str]) -> int:
    words, command = split_command(arguments)
    options = _add_parser().parse_args(words)
    name, entry = _new_entry(options, list(command))
    settings = _entry_settings(options)
    if "env" in entry and "env" in settings:
        settings["env"] = {**entry["env"], **settings["env"]}
    entry |= settings
    if not entry:
        raise UsageError(f"{name} is built in; pass an option to change its settings")
    path, origin = _target_file(options)
    change = add_entry(path, origin, name, entry, default=options.default, replace=options.replace)
    if origin == "project":
        _keep_trust(change)
    print(f"{visible(name)} added to {visible(str(path))}: {_entry_command(entry)}")
    return 0


def _add_parser() -> Parser:
    parser = _parser("add")
    parser.usage = "accord agents add [NAME] [--registry FILE] [OPTIONS] [-- COMMAND ...]"
    parser.add_argument("name", nargs="?", help="name of the agent; a known agent needs no command")
    option = parser.option
    option("--registry FILE", "take the agent from a registry.json or agent.json, version pinned")
    option(
        "--env NAME[=VALUE]",
        "environment variable of the agent; NAME alone or ${NAME} in VALUE refers to yours; repeatable",
        repeat=True,
    )
    option("--permissions WORD", f"what the agent may do: {', '.join(PERMISSION_DEFAULTS)}")
    option("--description TEXT", "description to show in lists")
    option("--timeout-ms N", "timeout of an ordinary request", type=int)
    option("--startup-timeout-ms N", "timeout of the start", type=int)
    option("--max-restarts N", "how often to restart the agent", type=int)
    option("--default", "make it the default agent")
    option("--replace", "replace an agent of the same name")
    option("--project", "change the project's acp.json instead of yours")
    return parser


def _remove(arguments: Sequence[str]) -> int:
    parser = _parser("remove")
    parser.add_argument("name", help="name of the agent")
    parser.option("--project", "change the project's acp.json instead of yours")
    options = parser.parse_args(arguments)
    path, origin = _target_file(options)
    change = remove_entry(path, origin, options.name)
    if origin == "project":
        _keep_trust(change)
    if origin == "user":
        from accord.cli.agents_install import forget_install

        forget_install(options.name)
    print(f"{visible(options.name)} removed from {visible(str(path))}")
    return 0


def _new_entry(options: Namespace, command: list[str]) -> tuple[str, dict[str, Any]]:
    if options.registry is not None:
        if command:
            raise UsageError("--registry and a command after `--` exclude each other; use one of them")
        registry_agent = _registry_agent(Path(options.registry).expanduser(), options.name)
        return registry_agent.id, registry_agent.entry()
    if options.name is None:
        raise UsageError("missing name; use `accord agents add NAME -- COMMAND ...`")
    if command:
        return options.name, _command_entry(command)
    if options.name.casefold() == BUILT_IN:
        return BUILT_IN, {}
    known_agent = find_known_agent(options.name)
    if known_agent is None:
        raise UsageError(
            f"unknown agent {options.name!r}; "
            f"use `accord agents add {shlex.quote(options.name)} -- COMMAND ...`"
        )
    start_command = known_agent.command
    if known_agent.executable() is None:
        runner = known_agent.runner_command
        if runner is None or shutil.which(runner[0]) is None:
            raise UsageError(f"{known_agent.id} is not installed; {known_agent.install_hint}")
        start_command = runner
    return known_agent.id, _command_entry(start_command)


def _command_entry(command: Sequence[str]) -> dict[str, Any]:
    program, *args = command
    return {"command": program, "args": args} if args else {"command": program}


def _registry_agent(path: Path, name: str | None) -> RegistryAgent:
    agents = read_registry(path)
    if name is None and len(agents) == 1:
        return next(iter(agents.values()))
    if name is None:
        raise UsageError(f"{path} has {len(agents)} agents; pass the name of one")
    return find_registry_agent(agents, name, str(path))


def _entry_settings(options: Namespace) -> dict[str, Any]:
    env: dict[str, str] = {}
    for assignment in options.env:
        name, value = split_env(assignment)
        if value is None:
            value = f"${{{name}}}"
        if options.project and _is_plain_credential(name, value):
            raise UsageError(
                f"--env {name}=... is a key and must not be in a project's file; use --env {name}"
            )
        env[name] = value
    settings = {
        "env": env or None,
        "permissions": options.permissions,
        "description": options.description,
        "timeoutMs": options.timeout_ms,
        "startupTimeoutMs": options.startup_timeout_ms,
        "maxRestarts": options.max_restarts,
    }
    return {key: value for key, value in settings.items() if value is not None}


def _target_file(options: Namespace) -> tuple[Path, Origin]:
    cwd = Path(existing_folder("--cwd", options.cwd))
    if not options.project:
        return user_file(), "user"
    return project_file(cwd) or cwd / FILE_NAME, "project"


def _keep_trust(change: ConfigChange) -> None:
    """Trust the changed file if the file before the user's change was trusted or did not exist."""
    before, after = change.before, change.after
    if before is None or TrustStore().is_trusted(before.path, before.content):
        trust_file(after)


def _entry_command(entry: dict[str, Any]) -> str:
    if "command" not in entry:
        return "default command"
    return visible(command_line_text([entry["command"], *entry.get("args", [])]))


_COMMANDS: Final[dict[str, tuple[str, Callable[[Sequence[str]], int]]]] = {
    "list": ("list the configured agents and the known ones", _list),
    "show": ("show everything about one agent", _show),
    "add": ("add an agent to acp.json", _add),
    "remove": ("remove an agent from acp.json", _remove),
    "install": ("install an agent of a registry, pinned by version and checksum", _install),
    "update": ("install newer versions of installed agents", _update),
    "import": ("copy agents from the configuration of other tools", _import),
    "trust": ("review and trust the project's acp.json", _trust),
    "schema": ("print the JSON Schema of acp.json", _schema),
    "login": ("sign in to an agent", _login),
    "logout": ("sign out of an agent", _logout),
    "setup": ("configure an editor to run `accord agent`", _setup),
}
