"""`accord agents install` and `update`: agents of a registry, pinned by version and checksum.

Imported on first use. Nothing is downloaded besides the registry, and nothing is written, before a yes.
"""

import shutil
from collections.abc import Sequence
from typing import Final

from accord.cli.agents_import import start_text
from accord.cli.command_parser import Parser, confirm, print_stderr, print_table
from accord.errors import UsageError
from accord.frontend.agent_config.acp_file import add as add_entry
from accord.frontend.agent_config.acp_file import read_file, user_file
from accord.frontend.agent_config.archive_install import install_archive, is_url, program_path, this_platform
from accord.frontend.agent_config.installed_agents import (
    Pin,
    agents_folder,
    load_registry,
    read_pins,
    write_pin,
)
from accord.frontend.agent_config.registry_file import RegistryAgent, find_registry_agent
from accord.safe_text import visible
from accord.text_width import count_text

_WITHOUT_TERMINAL: Final = "pass --yes to install"


def install(parser: Parser, arguments: Sequence[str]) -> int:
    """Install one agent and add it to the user's `acp.json`. Returns the exit code."""
    parser.add_argument("name", help="id of the agent in the registry, also as NAME@VERSION")
    parser.option("--registry FILE|URL", "the registry's JSON file (default: the last one)")
    parser.option("--replace", "replace an agent of the same name")
    parser.option("--yes", "install without asking")
    options = parser.parse_args(arguments)
    name, _, version = options.name.partition("@")
    pins = read_pins()
    source = _registry_source(options.registry, name, pins)
    agent = find_registry_agent(load_registry(source), name, source)
    if version and version != agent.version:
        raise UsageError(f"{source} has {name} {agent.version}, not {version}")
    own_file = read_file(user_file(), "user")
    if own_file is not None and own_file.contains(name) and name not in pins and not options.replace:
        raise UsageError(f"{name} is in your acp.json already; pass --replace to replace it")
    pin = _pin(agent, source, pins.get(name))
    _show(agent, pin)
    if not options.yes and not confirm(f"Install {name} {agent.version}?", _WITHOUT_TERMINAL):
        return 1
    _install(agent, pin)
    return 0


def update(parser: Parser, arguments: Sequence[str]) -> int:
    """Install newer versions of installed agents. Returns the exit code."""
    parser.add_argument("name", nargs="?", help="id of the agent (default: all installed ones)")
    parser.option("--registry FILE|URL", "the registry's JSON file (default: the agent's)")
    parser.option("--yes", "install without asking")
    options = parser.parse_args(arguments)
    pins = read_pins()
    if options.name is not None and options.name not in pins:
        raise UsageError(f"{options.name} was not installed by `accord agents install`")
    if not pins:
        raise UsageError("no agent was installed by `accord agents install`")
    wanted: list[tuple[RegistryAgent, Pin]] = []
    rows = [("NAME", "INSTALLED", "REGISTRY")]
    for name in [options.name] if options.name is not None else sorted(pins):
        source = options.registry or pins[name].registry
        agent = find_registry_agent(load_registry(source, refresh=True), name, source)
        rows.append((name, pins[name].version, agent.version))
        if agent.version != pins[name].version:
            wanted.append((agent, _pin(agent, source, None)))
    print_table(rows)
    if not wanted:
        print("Everything is up to date.")
        return 0
    for agent, pin in wanted:
        _show(agent, pin)
    question = f"Install {count_text(len(wanted), 'new version')}?"
    if not options.yes and not confirm(question, _WITHOUT_TERMINAL):
        return 1
    for agent, pin in wanted:
        _install(agent, pin)
    return 0


def forget_install(name: str) -> None:
    """Delete the files of an agent that was installed, if any. Raises UsageError."""
    if name in read_pins():
        shutil.rmtree(agents_folder() / name, ignore_errors=True)
        write_pin(name, None)


def _registry_source(option: str | None, name: str, pins: dict[str, Pin]) -> str:
    if option is not None:
        return option
    last = pins.get(name) or next(reversed(pins.values()), None)
    if last is None:
        raise UsageError("missing --registry FILE or URL; name the registry's JSON file")
    return last.registry


def _pin(agent: RegistryAgent, source: str, before: Pin | None) -> Pin:
    """Return what would be installed. The checksum of the same version stays what it was."""
    binary = agent.binary(this_platform())
    if binary is None:
        if (platforms := agent.platforms()) and not {"npx", "uvx"} & agent.distribution.keys():
            names = visible(", ".join(platforms))
            raise UsageError(f"{source}: {agent.id} has no archive for {this_platform()}, only for: {names}")
        entry = agent.entry()
        return Pin(agent.version, entry["command"], agent.package(entry["command"]), source)
    expected = binary.sha256
    if before is not None and (before.version, before.source) == (agent.version, binary.archive):
        expected = expected or before.sha256
    return Pin(agent.version, "binary", binary.archive, source, expected)


def _show(agent: RegistryAgent, pin: Pin) -> None:
    how = "an archive" if pin.kind == "binary" else f"a package, started by {pin.kind}"
    print(f"{agent.id} {agent.version}: {visible(agent.name)}, license {visible(agent.license or 'unknown')}")
    print(f"  {how}: {visible(pin.source)}")
    binary = agent.binary(this_platform())
    entry = agent.entry() if binary is None else agent.binary_entry(binary, binary.program)
    print(f"  started as: {visible(start_text(entry))}")
    if pin.kind == "binary" and pin.sha256:
        print(f"  checksum: sha256 {pin.sha256}")
    elif pin.kind == "binary":
        print_stderr(
            f"warning: the registry has no checksum of {agent.id}; what is downloaded now gets pinned",
            command="agents",
        )
    if pin.kind != "binary" and shutil.which(pin.kind) is None:
        print_stderr(f"warning: {pin.kind} is not installed; {agent.id} needs it to start", command="agents")


def _install(agent: RegistryAgent, pin: Pin) -> None:
    binary = agent.binary(this_platform())
    folder = agents_folder() / agent.id
    if binary is None:
        entry = agent.entry()
    else:
        target = folder / agent.version
        found = install_archive(binary.archive, pin.sha256 or None, binary.program, target)
        pin = Pin(pin.version, pin.kind, pin.source, pin.registry, found)
        entry = agent.binary_entry(binary, str(program_path(target, binary.program)))
    add_entry(user_file(), "user", agent.id, entry, replace=True)
    registry = pin.registry if is_url(pin.registry) else str(_absolute(pin.registry))
    write_pin(agent.id, Pin(pin.version, pin.kind, pin.source, registry, pin.sha256))
    for old in folder.glob("*"):
        if old.name != agent.version:
            shutil.rmtree(old, ignore_errors=True)
    print(f"{agent.id} {agent.version} installed and added to {visible(str(user_file()))}")


def _absolute(path: str) -> str:
    from pathlib import Path

    return str(Path(path).expanduser().absolute())
