"""`accord agents import`: copies agents from the configuration of other tools into the user's `acp.json`.

Imported on first use. Nothing is started, and the files of the other tools are only read.
"""

import shlex
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from accord.cli.command_parser import Parser, confirm, existing_folder, print_stderr, print_table
from accord.cli.editor_setup import this_machine
from accord.errors import UsageError
from accord.frontend.agent_config.acp_file import AgentConfigFile, read_content, read_file, user_file
from accord.frontend.agent_config.acp_file import add as add_entry
from accord.frontend.agent_config.agent_environment import referenced_variables
from accord.frontend.agent_config.agent_list_formats import AgentListEntry
from accord.frontend.agent_config.jsonc import read_bytes
from accord.frontend.known_agents import canonical_name
from accord.policy.sandbox.command_environment import is_credential
from accord.safe_text import visible
from accord.text_width import count_text
from accord.trace.redaction import command_line_text

_MAX_BYTES: Final = 4 * 1024 * 1024
_TOAD_SYSTEMS: Final = {"linux": "linux", "darwin": "macos", "win32": "windows"}


@dataclass(frozen=True, slots=True)
class ImportedAgent:
    """An agent of another tool's file, as an entry for `acp.json`."""

    name: str
    entry: dict[str, Any]
    source: Path


def import_agents(parser: Parser, arguments: Sequence[str]) -> int:
    """Show the agents of other tools and copy them after a yes. Returns the exit code."""
    parser.usage = "accord agents import [FILE ...] [--dry-run] [--yes] [--replace] [--cwd DIR]"
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="configuration file (default: those of acpx, Zed, JetBrains, Agentao, simse and iac-code)",
    )
    parser.option("--dry-run", "only show what would be imported")
    parser.option("--yes", "import without asking")
    parser.option("--replace", "replace agents that differ from yours")
    options = parser.parse_args(arguments)
    cwd = Path(existing_folder("--cwd", options.cwd))
    found = list(_find_agents([Path(file).expanduser() for file in options.files], cwd))
    if not found:
        raise UsageError("no agents found; name a configuration file: `accord agents import FILE`")
    own_file = read_file(user_file(), "user")
    wanted = _show(found, own_file, replace=options.replace)
    if not wanted:
        print("Nothing to import.")
        return 0
    if options.dry_run:
        return 0
    question = f"Import {count_text(len(wanted), 'agent')} to your acp.json?"
    if not options.yes and not confirm(question, "pass --yes to import, or --dry-run to only look"):
        return 1
    for agent in wanted:
        add_entry(user_file(), "user", agent.name, agent.entry, replace=options.replace)
    print(f"{len(wanted)} imported to {visible(str(user_file()))}")
    return 0


def default_files(cwd: Path) -> list[Path]:
    """Return where other tools keep their agents, for the user and for a project."""
    machine = this_machine()
    home = Path(machine.home)
    iac_code = Path(machine.environ.get("IAC_CODE_CONFIG_DIR") or home / ".iac-code")
    return [
        home / ".acpx" / "config.json",
        cwd / ".acpxrc.json",
        Path(machine.zed()),
        Path(machine.jetbrains()),
        cwd / ".agentao" / "acp.json",
        Path(machine.simse()),
        home / ".simse" / "acp.json",  # its first versions
        cwd / ".simse" / "acp.json",
        iac_code / "settings.yml",
    ]


def _find_agents(files: list[Path], cwd: Path) -> Iterator[ImportedAgent]:
    """Yield the agents of the named files, or of all default ones that exist. Raises UsageError."""
    for path in files or default_files(cwd):
        content = read_bytes(path, max_bytes=_MAX_BYTES)
        if content is None and files:
            raise UsageError(f"{path} does not exist")
        if content is None:
            continue
        try:
            yield from read_agents(path, content)
        except UsageError as error:
            if files:
                raise
            print_stderr(f"skipped {visible(str(error))}", command="agents")


def read_agents(path: Path, content: bytes) -> list[ImportedAgent]:
    """Read the agents of a file, by its kind. Raises UsageError."""
    if path.suffix == ".toml":
        return [_toad_agent(path, content)]
    if path.suffix in (".yml", ".yaml"):
        return [_iac_code_agent(path)]
    file = read_content(path, content, "user")
    for note in file.agent_list.notes:
        print_stderr(f"note: {visible(note)}", command="agents")
    if file.mcp:
        note = f"{path}: mcpServers of all agents are not imported; add them to your acp.json"
        print_stderr(f"note: {visible(note)}", command="agents")
    entries = zip(file.agent_list.entries, file.agents, strict=True)
    return [
        ImportedAgent(agent.name, _absolute_entry(entry, agent.start_command(), agent.cwd), path)
        for entry, agent in entries
        if agent.command
    ]


def _absolute_entry(entry: AgentListEntry, command: tuple[str, ...], cwd: str | None) -> dict[str, Any]:
    """Return the members of an entry with paths that do not depend on the folder of its file."""
    members = {**entry.members, "command": command[0]}
    return members if cwd is None else {**members, "cwd": cwd}


def _toad_agent(path: Path, content: bytes) -> ImportedAgent:
    """Read Toad's description of one agent."""
    try:
        members = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: it is not TOML ({error})") from None
    commands = members.get("run_command")
    if isinstance(commands, dict):
        by_system = cast("dict[str, Any]", commands)
        commands = by_system.get(_TOAD_SYSTEMS.get(sys.platform, ""), by_system.get("*"))
    name = members.get("short_name") or members.get("identity")
    if not isinstance(commands, str) or not isinstance(name, str):
        raise UsageError(f"{path}: it is not an agent of Toad: it needs `identity` and `run_command`")
    try:
        program, *args = shlex.split(commands)
    except ValueError as error:
        raise UsageError(f"{path}: run_command is not a command line ({error})") from None
    entry: dict[str, Any] = {"command": program, "args": args}
    if isinstance(members.get("name"), str):
        entry["description"] = members["name"]
    return ImportedAgent(name, entry, path)


def _iac_code_agent(path: Path) -> ImportedAgent:
    """iac-code is an agent itself: its settings say that it is in use, and it reads them on its own."""
    entry: dict[str, Any] = {"command": "iac-code", "args": ["acp"], "description": "IaC Code"}
    folder = path.absolute().parent
    if folder != Path.home() / ".iac-code":
        entry["env"] = {"IAC_CODE_CONFIG_DIR": str(folder)}
    return ImportedAgent("iac-code", entry, path)


def _show(
    found: list[ImportedAgent], own_file: AgentConfigFile | None, *, replace: bool
) -> list[ImportedAgent]:
    """Print all agents with what happens to them; return those to import."""
    own = {} if own_file is None else {canonical_name(e.name): e.members for e in own_file.agent_list.entries}
    wanted: dict[str, ImportedAgent] = {}
    rows = [("NAME", "IMPORT", "COMMAND", "FILE")]
    for agent in found:
        key = canonical_name(agent.name)
        if key in wanted:
            state = "no: an earlier file has it"
        elif key in own and own[key] == agent.entry:
            state = "no: you have it"
        elif key in own and not replace:
            state = "no: yours differs; --replace"
        else:
            wanted[key] = agent
            state = "replaces yours" if key in own else "yes"
        rows.append(
            (visible(agent.name), state, visible(start_text(agent.entry)), visible(str(agent.source)))
        )
    print_table(rows)
    for agent in wanted.values():
        _warn_of_secrets(agent)
    return list(wanted.values())


def start_text(entry: dict[str, Any]) -> str:
    """Return what an entry starts, with its variables and without secrets, for a user who has to agree."""
    env = cast("dict[str, Any]", entry.get("env") or {})
    variables = [f"{name}={value}" for name, value in env.items()]
    return command_line_text([*variables, entry["command"], *entry.get("args", [])])


def _warn_of_secrets(agent: ImportedAgent) -> None:
    env = cast("dict[str, Any]", agent.entry.get("env") or {})
    for name, value in env.items():
        if isinstance(value, str) and is_credential(name, value) and not referenced_variables([value]):
            print_stderr(
                f"warning: {visible(agent.name)}: {visible(name)} is a key in plain text; "
                f'set it in your environment and write "{visible(name)}": "${{{visible(name)}}}"',
                command="agents",
            )
