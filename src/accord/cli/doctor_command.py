"""`accord doctor`: checks the coding agent, configured agents, terminals, the sandbox and the gateway."""

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
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from accord import __version__
from accord.cli.command_parser import Parser
from accord.errors import StoreError, UsageError
from accord.extras import EXTRAS, is_installed, require
from accord.text_width import count_text

if TYPE_CHECKING:
    from accord.coder.models import ModelRegistry
    from accord.coder.user_config import Config


BROKEN: Final = "BROKEN"
_LISTED_MODELS: Final = 10

_PLATFORMS: Final = {
    "Linux": "tested",
    "Darwin": "designed for, untested",
    "Windows": "designed for, untested",
}
_EXTRA_PURPOSES: Final = {
    "agent": "the coding agent's models and tools",
    "mcp": "MCP servers",
    "remote": "agents over WebSocket and HTTP",
    "gateway": "agents on the network",
    "push": "notifications in browsers",
    "cluster": "gateways on several machines",
    "tui": "the terminal client",
    "check": "the checker's reports through pytest",
    "otel": "spans and metrics for OpenTelemetry",
    "uvloop": "a faster event loop",
}


class DoctorFinding(NamedTuple):
    """One line of the report: what was checked, its state, and what to do about it."""

    name: str
    state: str
    remark: str = ""


def main(arguments: Sequence[str]) -> int:
    """Print the report; fail if something is broken.

    With names of extras, only check that they are installed.
    """
    parser = Parser("accord doctor", "Check what works on this machine and what is missing.")
    parser.add_argument("extra", nargs="*", help="only check that these extras are installed")
    parser.option("--online", "also test each key and address with a request to its provider")
    options = parser.parse_args(arguments)
    extras = options.extra
    for extra in extras:
        if extra not in EXTRAS:
            raise UsageError(f"unknown extra {extra!r}; use one of: {', '.join(EXTRAS)}")
        require(extra, f"accord doctor {extra}")
    if extras:
        return 0
    report = findings(online=options.online)
    for name, state, remark in report:
        print(f"{name:<10} {state:<10} {remark}".rstrip())
    command, reason = next_step(report)
    print(f"{'next':<10} {command}   # {reason}")
    return 1 if any(finding.state == BROKEN for finding in report) else 0


def next_step(report: Sequence[DoctorFinding]) -> tuple[str, str]:
    """Return the most useful command to run next, and the reason."""
    from accord.coder.models.model_name import REHEARSAL

    found = {finding.name: finding for finding in report}
    broken = next((finding.name for finding in report if finding.state == BROKEN), None)
    if broken is not None:
        return "accord doctor", f"again, after you have fixed what is broken: {broken}"
    if "acp.json" in found:
        return "accord agents trust", "this project brings agents that you have not agreed to"
    model, first_turn = found["model"], found["store"].state == "none"
    provider = model.remark.partition(":")[0]
    if model.state == "missing":
        return "pip install 'accord[agent]'", "the chosen model needs it"
    if model.state == "no key":
        return f"accord agent --login {provider}", "the chosen model has no key"
    if provider == REHEARSAL:
        if first_turn:
            return "accord tour", "two minutes, without a key"
        return "accord agent --login", "store the key of a model provider"
    if first_turn or found["[tui]"].state == "missing":
        return 'accord run "Explain this project"', "everything is ready"
    return "accord chat", "everything is ready"


def findings(*, online: bool = False) -> list[DoctorFinding]:
    """Run all checks. `online`: also those that send requests to model providers."""
    system = platform.system()
    config, config_finding = _check_config()
    return [
        DoctorFinding("accord", __version__),
        DoctorFinding("python", platform.python_version(), sys.executable),
        DoctorFinding("platform", system, _PLATFORMS.get(system, "untested")),
        DoctorFinding(
            "node",
            "found" if shutil.which("node") else "missing",
            "only tests against the TypeScript SDK need it",
        ),
        config_finding,
        *_check_models(config, online=online),
        *_check_folders(),
        _check_store(),
        _check_search(config),
        _check_language_servers(config),
        _check_ripgrep(),
        *_check_agents(),
        *_check_mcp_servers(config),
        *_check_definitions("skills"),
        *_check_definitions("agents"),
        *_check_hooks(config),
        _check_terminals(),
        asyncio.run(_check_sandbox()),
        gateway_finding(),
        *_check_extras(),
    ]


def _check_extras() -> list[DoctorFinding]:
    return [
        DoctorFinding(f"[{extra}]", "installed", purpose)
        if is_installed(extra)
        else DoctorFinding(f"[{extra}]", "missing", f"{purpose}: pip install 'accord[{extra}]'")
        for extra, purpose in _EXTRA_PURPOSES.items()
    ]


def _check_config() -> "tuple[Config | None, DoctorFinding]":
    from accord.coder.permissions.permission_settings import permission_settings
    from accord.coder.user_config import load_config
    from accord.paths import config_dir

    try:
        config = load_config()
        permission_settings(config.mapping, config.file or "")
    except UsageError as error:
        return None, DoctorFinding("config", BROKEN, f"{error}; fix it to start sessions")
    if config.file is None:
        return config, DoctorFinding("config", "none", f"{config_dir() / 'config.toml'} does not exist")
    return config, DoctorFinding("config", "valid", str(config.file))


def _check_models(config: "Config | None", *, online: bool) -> list[DoctorFinding]:
    from accord.coder.models import ModelRegistry

    if config is None:
        return [DoctorFinding("model", "unknown", "fix the config first")]
    models = ModelRegistry(config.models)
    try:
        choice = models.choose()
        names = dict.fromkeys([*models.endpoints.names, *_named_providers(models, config)])
        providers = [_check_provider(name, models) for name in names]
    except UsageError as error:
        return [DoctorFinding("model", BROKEN, str(error))]
    reason = {
        "environment": "chosen by ACCORD_MODEL",
        "config": "chosen in the config",
        "credentials": "the first provider with a key",
        "rehearsal": "no AI, a fixed script: "
        + (choice.missing_model or "set a key or run `accord agent --login` to use a model"),
    }[choice.source]
    state = "ready" if choice.missing_key is None else "no key"
    if choice.source != "rehearsal" and not is_installed("agent"):
        state, reason = "missing", f"{reason}; models need: pip install 'accord[agent]'"
    model = DoctorFinding("model", state, f"{choice.model}: {choice.missing_key or reason}")
    if online:
        from accord.cli.doctor_online import check_providers

        providers = check_providers(providers, models)
    others = [("fallback", text) for text in config.models.fallback_models]
    if config.models.small_model is not None:
        others.append(("small", config.models.small_model))
    others_found = [_check_other_model(name, text, models) for name, text in others]
    return [model, *others_found, *providers, *_check_local_servers(models)]


def _named_providers(models: "ModelRegistry", config: "Config") -> list[str]:
    """The servers of the models that the settings name: some are known only by `{NAME}_BASE_URL`."""
    named = [os.environ.get("ACCORD_MODEL"), config.models.model, config.models.small_model]
    found: list[str] = []
    for text in (*named, *config.models.fallback_models):
        with suppress(UsageError):
            found += [models.find(text).provider] if text else []
    return [name for name in found if name not in ("rehearsal", "acp")]


def _check_other_model(name: str, text: str, models: "ModelRegistry") -> DoctorFinding:
    """Check a model of `fallback_models` or `small_model`, which is otherwise first looked up in a turn."""
    from accord.coder.models.model_registry import missing_key

    try:
        model = models.find(text)
    except UsageError as error:
        return DoctorFinding(name, BROKEN, str(error))
    if (reason := missing_key(model.provider, models.endpoints)) is not None:
        return DoctorFinding(name, "no key", f"{model}: {reason}")
    return DoctorFinding(name, "ready", f"{model}: chosen in the config")


def _check_local_servers(models: "ModelRegistry") -> list[DoctorFinding]:
    """Report the model servers that run on this machine, with their models."""
    from accord.coder.models.local_servers import find_local_servers
    from accord.safe_text import clean_line, one_line

    findings: list[DoctorFinding] = []
    for server in find_local_servers(models.endpoints):
        names = [f"{one.name} ({one.details})" if one.details else one.name for one in server.models]
        listed = "; ".join(one_line(clean_line(name), 100) for name in names[:_LISTED_MODELS])
        more = f"; {len(names) - _LISTED_MODELS} more" if len(names) > _LISTED_MODELS else ""
        findings.append(
            DoctorFinding(server.name, "runs", f"at {server.base_url}: {listed or 'no models'}{more}")
        )
    return findings


def _check_provider(name: str, models: "ModelRegistry") -> DoctorFinding:
    from accord.coder.models.credentials import credentials_file, key_variables
    from accord.coder.models.model_registry import missing_key

    endpoint = models.endpoints.get(name)
    missing = missing_key(name, models.endpoints)
    if missing is not None:
        return DoctorFinding(name, "no key", missing.partition("; ")[2])
    address = f" at {endpoint.base_url}" if endpoint.base_url else ""
    if endpoint.key is None:
        return DoctorFinding(name, "ready", f"needs no key{address}")
    variables = key_variables(endpoint.family)
    source = next((name for name in variables if os.environ.get(name, "").strip()), str(credentials_file()))
    return DoctorFinding(name, "ready", f"key from {source}{address}")


_PROBE_BYTES: Final = 64 * 1024
"""Written to find a full disk: a small file may still fit into what is reserved."""


def _check_folders() -> list[DoctorFinding]:
    """Check by writing a file that is removed at once whether settings and sessions can be stored."""
    from accord.paths import config_dir, data_dir, explain_file_error

    found: list[DoctorFinding] = []
    for name, folder in (("settings", config_dir()), ("data", data_dir())):
        existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        try:
            # A folder that does not exist yet is not created: the first existing one above it is tested.
            with tempfile.TemporaryFile(dir=existing) as file:
                file.write(b"0" * _PROBE_BYTES)
                file.flush()
        except OSError as error:
            error.filename = str(folder)
            found.append(DoctorFinding(name, BROKEN, explain_file_error(error)))
        else:
            found.append(DoctorFinding(name, "writable", str(folder)))
    return found


def _check_store() -> DoctorFinding:
    from accord.store import open_store, store_path

    path = store_path()
    try:
        if not path.exists():
            return DoctorFinding("store", "none", f"{path}; the first session creates it")
        store = open_store(path)
    except (StoreError, UsageError, OSError) as error:
        return DoctorFinding("store", BROKEN, f"{error} (accord agent --store PATH)")
    read_only = store.read_only
    store.close()
    if read_only:
        remark = f"{path} can only be read: sessions cannot be stored (accord agent --store PATH)"
        return DoctorFinding("store", BROKEN, remark)
    return DoctorFinding("store", "opens", str(path))


def _check_search(config: "Config | None") -> DoctorFinding:
    """Say which search `web_search` would ask."""
    from accord.coder.models import ModelRegistry
    from accord.coder.models.agent_as_model import ACP
    from accord.coder.models.model_name import REHEARSAL
    from accord.coder.tools.search_services import choose_search
    from accord.coder.user_config import WebConfig

    if config is None:
        return DoctorFinding("search", "unknown", "fix the config first")
    try:
        models = ModelRegistry(config.models)
        model = models.choose().model
        endpoint = (
            None if model.provider in (REHEARSAL, ACP) else models.endpoints.get(model.provider, model.name)
        )
        if config.web.search == "off":
            found = choose_search(WebConfig(search="auto"), endpoint, os.environ)
            would = "would use" if found.service else "would find nothing"
            return DoctorFinding("search", "off", f'[web] search = "auto" {would}: {found.reason}')
        choice = choose_search(config.web, endpoint, os.environ)
    except UsageError as error:
        return DoctorFinding("search", BROKEN, str(error))
    return DoctorFinding("search", "missing" if choice.service is None else "ready", choice.reason)


def _check_language_servers(config: "Config | None") -> DoctorFinding:
    """Say which language servers would be asked after an edit."""
    from accord.coder.lsp.server_table import LspConfig, lsp_config, search_report

    if config is None:
        return DoctorFinding("lsp", "unknown", "fix the config first")
    settings = lsp_config(config.mapping, config.file or "")
    found, missing = search_report(settings if settings.enabled else LspConfig(), (os.getcwd(),))
    names = ", ".join(found) or "none is installed"
    absent = f"; not found: {', '.join(missing)}" if missing else ""
    if not settings.enabled:
        return DoctorFinding("lsp", "off", f"lsp = true in the config would use: {names}{absent}")
    return DoctorFinding("lsp", "on" if found else "missing", f"{names}{absent}")


def _check_ripgrep() -> DoctorFinding:
    from accord.coder.files.file_search import find_ripgrep

    path = find_ripgrep()
    if path is None:
        return DoctorFinding("ripgrep", "missing", "search is slower without it: pip install 'accord[agent]'")
    return DoctorFinding("ripgrep", "found", path)


def _check_agents() -> list[DoctorFinding]:
    from accord.frontend.agent_config import leave_out, load
    from accord.safe_text import visible

    try:
        agents = load(".", trust=leave_out)
    except UsageError as error:
        return [DoctorFinding("agents", BROKEN, f"{error}; fix it to start agents")]
    installed = [agent.name for agent in agents if agent.origin != "built-in" and agent.installed()]
    missing = [
        agent.name for agent in agents.configured if agent.origin != "built-in" and not agent.installed()
    ]
    default = f"default: {visible(agents.default.name)}"
    names = f"; installed: {visible(', '.join(installed))}" if installed else ""
    findings = [
        DoctorFinding("agents", str(len(installed) + 1), f"{default}{names}; accord agents list shows more")
    ]
    if missing:
        remark = f"{visible(', '.join(missing))}: accord agents show NAME says how to install it"
        findings.append(DoctorFinding("agents", "missing", remark))
    if agents.untrusted_file is not None:
        path = visible(str(agents.untrusted_file.path))
        findings.append(
            DoctorFinding("acp.json", "waiting", f"{path} is not trusted; run `accord agents trust`")
        )
    return findings


def _check_mcp_servers(config: "Config | None") -> list[DoctorFinding]:
    """Report the user's MCP servers, files of the project to trust, and entries that cannot be used."""
    from accord.coder.mcp.own_servers import user_servers
    from accord.coder.permissions.project_files import MCP_SERVERS, project_files
    from accord.paths import config_dir
    from accord.safe_text import visible

    servers, problems = (
        ([], []) if config is None else user_servers(config.mapping, config.file, config_dir())
    )
    project = project_files(os.getcwd(), purposes=[MCP_SERVERS])
    findings = [DoctorFinding("mcp", "remark", visible(line)) for line in problems]
    if servers:
        names = visible(", ".join(server.name for server in servers))
        findings.insert(0, DoctorFinding("mcp", str(len(servers)), f"{names}; `/mcp` shows their state"))
    if project.trusted:
        findings.append(DoctorFinding("mcp", "project", f"{', '.join(project.trusted)}: trusted"))
    if project.untrusted:
        text = f"{', '.join(project.untrusted)}: of this project, not trusted; a session asks you"
        findings.append(DoctorFinding("mcp", "waiting", text))
    return findings


def _check_definitions(kind: str) -> list[DoctorFinding]:
    """Report the skills or custom agents of user and project, those to trust, and unusable files."""
    from accord.coder.definitions.agents import AgentSet
    from accord.coder.definitions.skills import SkillSet
    from accord.safe_text import visible

    found = SkillSet() if kind == "skills" else AgentSet()
    name = "skills" if kind == "skills" else "sub-agents"
    found.load(os.getcwd())
    if not found.usable and not found.waiting and not found.problems:
        return []
    report = [DoctorFinding(name, str(len(found.usable)), visible(", ".join(found.usable)))]
    if found.waiting:
        names = visible(", ".join(one.name for one in found.waiting))
        remark = f"{names}: of this project, not trusted; type `/{kind} trust` in a session"
        report.append(DoctorFinding(name, "waiting", remark))
    return report + [DoctorFinding(name, "remark", visible(line)) for line in found.problems]


def _check_hooks(config: "Config | None") -> list[DoctorFinding]:
    """Report the hooks of the user and the trusted project, files to trust, and entries that are not used."""
    from accord.coder.hooks.hook_config import load_hooks
    from accord.coder.permissions.project_files import HOOKS, project_files
    from accord.paths import config_dir
    from accord.safe_text import visible

    project = project_files(os.getcwd(), purposes=[HOOKS])
    found = load_hooks({} if config is None else config.mapping, config_dir(), project.trusted.values())
    findings: list[DoctorFinding] = []
    if found.hooks:
        events = ", ".join(dict.fromkeys(hook.event for hook in found.hooks))
        findings.append(DoctorFinding("hooks", str(len(found.hooks)), f"{events}; `/hooks` shows them"))
    if project.untrusted:
        text = f"{', '.join(project.untrusted)}: of this project, not trusted; a session asks you"
        findings.append(DoctorFinding("hooks", "waiting", text))
    unusable = [f"{name}: {reason}" for name, reason in project.unusable.items()]
    return findings + [
        DoctorFinding("hooks", "remark", visible(line)) for line in (*found.problems, *unusable)
    ]


def _check_terminals() -> DoctorFinding:
    """Check by opening one whether commands can run in pseudo-terminals."""
    if not hasattr(os, "openpty"):
        return DoctorFinding("terminals", "missing", "this system has no pseudo-terminals")
    try:
        descriptors = os.openpty()
    except OSError as error:
        return DoctorFinding("terminals", "missing", f"cannot open one ({error.strerror}); mount /dev/pts")
    for descriptor in descriptors:
        os.close(descriptor)
    return DoctorFinding("terminals", "work", "agents can run commands in terminals")


def gateway_finding() -> DoctorFinding:
    """Report whether a gateway runs, the port, the tokens, the page and the settings. Creates nothing."""
    from accord.cli.serve_command import read_settings, settings_file
    from accord.gateway.access.access_tokens import TokenStore
    from accord.gateway.running_gateways import list_running_gateways

    try:
        settings = read_settings()
        if settings.cluster is not None:
            from accord.cluster.settings import read_cluster_settings

            read_cluster_settings(settings.cluster, str(settings_file()))
    except UsageError as error:
        return DoctorFinding("gateway", BROKEN, str(error))
    if not is_installed("gateway"):
        return DoctorFinding("gateway", "missing", "accord serve needs: pip install 'accord[gateway]'")
    running = list_running_gateways()
    remarks = (
        [f"at {', '.join(gateway.url for gateway in running)}"] if running else [_port_text(settings.port)]
    )
    now = time.time()
    tokens = [token for token in TokenStore().all() if not token.is_expired(now)]
    if (settings.cluster or {}).get("servers"):
        remarks.append("tokens of a cluster; `accord cluster check` tests its servers")
    elif tokens:
        remarks.append(count_text(len(tokens), "token"))
    else:
        remarks.append("no token yet; `accord serve token new` creates one")
    remarks.append(_page_text())
    remarks.append(str(settings_file()) + ("" if settings_file().exists() else " does not exist"))
    return DoctorFinding("gateway", "runs" if running else "ready", "; ".join(remarks))


def _port_text(setting: int | None) -> str:
    from accord.cli.serve_command import PORT

    port = PORT if setting is None else setting
    if port == 0:
        return "any free port"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            return f"port {port} is {'used by another program' if in_use else f'unusable ({error.strerror})'}"
    return f"port {port} is free"


def _page_text() -> str:
    from accord.gateway.http.http_routes import PAGE_FOLDER

    built = (PAGE_FOLDER / "index.html").is_file()
    return "the page is built" if built else "the page is not built: run `make web` (needs Node)"


async def _check_sandbox() -> DoctorFinding:
    """Report the sandbox of the coding agent's commands, after running its self-test."""
    from accord.policy.sandbox import Sandbox, contradictions, run_self_test

    with tempfile.TemporaryDirectory(prefix="accord-doctor-") as root:
        os.makedirs(os.path.join(root, ".git", "hooks"))  # like a project, which is usually a repository
        with Sandbox([root]) as sandbox:
            report = sandbox.report
            broken = contradictions(report, await run_self_test(sandbox))
    if broken:
        return DoctorFinding("sandbox", BROKEN, "; ".join(map(str, broken)))
    remarks = [report.summary().partition(": ")[2], *report.reasons]
    if report.backend == "none":
        remarks.append("every command needs permission; install bubblewrap")
    else:
        remarks.insert(1, "self-test passed")
        if not report.is_effective:
            remarks.insert(2, "`workspace-write` asks about commands; install bubblewrap")
    return DoctorFinding("sandbox", report.backend, "; ".join(remarks))
