"""The gateway's page: its unit tests, and scenarios in Chromium with a real gateway and the coding agent."""

import asyncio
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.certificates import Certificate, new_certificate
from tests.cli.serve.gateway_process import GatewayProcess, accord, running_gateway
from tests.requirements import need_node
from tests.web.screenshots import IMAGES, SCREENSHOTS

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
SCENARIOS = (
    "complete turn",
    "permission requests and forms",
    "undo and rewind",
    "copy, retry and edit",
    "tables, task lists and images",
    "formulas and diagrams",
    "reload during a turn",
    "two tabs on one session",
    "lost connection",
    "installed page without a connection",
    "notifications on a phone",
    "notifications on a tablet",
    "accessibility and keyboard",
    "images, links, forms and a forgotten connection",
    "hostile content",
    "review of changes",
    "home page and worktrees",
    "session list, search and archive",
    "rename, fork, export and share",
    "devices, appearance and command palette",
)
FAILURE_SCENARIOS = (
    "failing agents",
    "misleading text",
    "long answer",
    "tokens, tabs and drafts",
)


def _need_packages(*names: str) -> str:
    """Return the path of Node, or skip the test if an npm package of the page is not installed."""
    node = need_node()
    for name in names:
        if not (WEB / "node_modules" / name).is_dir():
            pytest.skip(f"the npm package {name} is not installed in web/: run `make web`")
    return node


def _need_chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    pytest.skip("Chromium is not installed (no `chromium` on PATH)")


def _need_page() -> None:
    if not (ROOT / "src" / "accord" / "gateway" / "page" / "index.html").is_file():
        pytest.skip("the page is not built: run `make web`")


@pytest.mark.timeout(900)
def test_unit_tests_pass() -> None:
    node = _need_packages("vitest", "jsdom")
    done = subprocess.run(
        [node, "node_modules/vitest/vitest.mjs", "run"],
        cwd=WEB,
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]


_PAGE_BYTES = 250_000
_COMMON_LANGUAGES = {"bash", "diff", "javascript", "json", "markdown", "python", "typescript", "yaml"}


def test_the_page_is_small_without_formulas_and_diagrams() -> None:
    """All code of the page, compressed, with the terminal, the highlighter and its most common languages."""
    _need_page()
    page = ROOT / "src" / "accord" / "gateway" / "page"
    languages = {path.stem for path in (WEB / "node_modules/highlight.js/lib/languages").glob("*.js")}
    assert languages, "run `make web`"
    found, names = set[str](), ["index.html"]
    while names:
        name = names.pop()
        stem = name.removeprefix("assets/").rsplit("-", 1)[0]
        if name in found or stem == "katex" or stem in languages - _COMMON_LANGUAGES:
            continue
        found.add(name)
        text = (page / name).read_text("utf-8")
        links = re.findall(r"""["'`(](?:\./|assets/)+([\w.-]+\.(?:js|css))["'`)]""", text)
        names += [f"assets/{link}" for link in links if (page / "assets" / link).is_file()]
    sizes = {name: len(gzip.compress((page / name).read_bytes(), 9)) for name in found}
    assert any("python-" in name for name in sizes), "the languages of the highlighter were not found"
    assert sum(sizes.values()) < _PAGE_BYTES, sorted(sizes.items(), key=lambda item: -item[1])[:12]


def test_lock_file_contains_no_download_addresses() -> None:
    assert '"resolved"' not in (WEB / "package-lock.json").read_text("utf-8")


def test_every_screenshot_exists_and_is_in_the_guide() -> None:
    guide = (ROOT / "docs" / "page.md").read_text("utf-8")
    for name in SCREENSHOTS:
        assert (IMAGES / f"page-{name}.png").is_file()
        assert f"images/page-{name}.png" in guide


def _options(home: Path) -> tuple[str, ...]:
    """Of a gateway for scenarios: it does not wait for the turns that they leave when it is stopped."""
    return "--no-qr", "--log", str(home / "log"), "--stop-wait", "0"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Of the push service, with its key."""
    return new_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Iterator[GatewayProcess]:
    """A gateway that trusts the push service of the tests."""
    _need_page()
    home = tmp_path_factory.mktemp("home")
    programs = tmp_path_factory.mktemp("bin")
    (programs / "gh").write_text("#!/bin/sh\necho https://example.com/pull/7\n", "utf-8")
    (programs / "gh").chmod(0o755)
    (home / "config").mkdir()
    settings = {"notifications": {"allowHosts": ["127.0.0.1"], "delay": 0}}
    (home / "config" / "serve.json").write_text(json.dumps(settings))
    variables = {
        "ACCORD_MODEL": "rehearsal",
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "SSL_CERT_FILE": str(certificate[0]),
    }
    with running_gateway(home, "accord", *_options(home), **variables) as running:
        yield running
        running.signal()
        running.end()


class Browser:
    """Runs scenarios in one Chromium, which takes seconds to start. Each has its own tabs and cookies."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, scenario: str, gateway: GatewayProcess, folder: Path, **more: object) -> None:
        """Run a scenario with this gateway in a small project, and fail as it fails."""
        (folder / "README.md").write_text("# Read me\n\nA small project.\n", "utf-8")
        link = f"{gateway.url}/#token={gateway.token}"
        request = {"scenario": scenario, "link": link, "folder": str(folder), **more}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, "the process that runs the scenarios has ended"
        failure = json.loads(answer)
        assert not failure, failure


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    node, chromium = _need_packages("playwright-core", "axe-core"), _need_chromium()
    command = [node, "e2e/run.mjs", chromium]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=WEB, stdin=pipe, stdout=pipe, text=True) as process:
        yield Browser(process)
        process.communicate()
        assert process.returncode == 0


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario_in_browser(
    scenario: str,
    browser: Browser,
    gateway: GatewayProcess,
    certificate: Certificate,
    tmp_path: Path,
) -> None:
    browser.run(scenario, gateway, tmp_path, certificate=list(map(str, certificate)))


@pytest.fixture(scope="module")
def gateway_with_misbehaving_agents(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[GatewayProcess, Path]]:
    """A gateway and its home folder. Its default agent cannot start."""
    _need_page()
    home = tmp_path_factory.mktemp("misbehaving")
    program = Path(__file__).with_name("misbehaving_agent.py")
    names = ("broken", "scripted", "locked")
    for name in names:
        accord(home, "agents", "add", name, "--", sys.executable, str(program), name)
    with running_gateway(home, *names, *_options(home)) as running:
        yield running, home
        running.signal()
        running.end()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", FAILURE_SCENARIOS)
def test_failure_scenario_in_browser(
    scenario: str,
    browser: Browser,
    gateway_with_misbehaving_agents: tuple[GatewayProcess, Path],
    tmp_path: Path,
) -> None:
    gateway, home = gateway_with_misbehaving_agents
    _, read_only_token, _ = accord(
        home, "serve", "token", "new", "--read-only", "--plain", "--name", "reader"
    )
    with_home = ["env", f"ACCORD_HOME={home}"]
    revoke_command = [*with_home, sys.executable, "-m", "accord.cli", "serve", "token", "revoke"]
    browser.run(
        scenario, gateway, tmp_path, readOnlyToken=read_only_token.strip(), revokeCommand=revoke_command
    )


@pytest.mark.timeout(1200)
def test_the_page_stops_single_commands_of_an_agent_in_version_2(browser: Browser, tmp_path: Path) -> None:
    _need_page()
    home, folder = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    folder.mkdir()
    command = ("--protocol", "2", "--", sys.executable, str(Path(__file__).with_name("working_agent.py")))
    with running_gateway(home, *_options(home), *command) as gateway:
        browser.run("stop single commands", gateway, folder)
        gateway.signal()
        gateway.end()


@pytest.mark.timeout(1200)
def test_page_shows_the_truth_after_a_restart_of_the_gateway(browser: Browser, tmp_path: Path) -> None:
    _need_page()
    home, folder = tmp_path / "home", tmp_path / "project"
    folder.mkdir()
    pipe = folder / "restart"
    os.mkfifo(pipe)
    program = Path(__file__).with_name("misbehaving_agent.py")
    for name in ("scripted", "forgetful"):
        accord(home, "agents", "add", name, "--", sys.executable, str(program), name)
    options = ("scripted", "forgetful", *_options(home))
    with ExitStack() as stack:
        gateway = stack.enter_context(running_gateway(home, *options))

        def restart() -> None:
            if pipe.read_text("utf-8"):
                gateway.signal(signal.SIGKILL)
                gateway.end()
                stack.enter_context(running_gateway(home, *options, "--port", str(gateway.port)))

        with ThreadPoolExecutor() as pool:
            restarted = pool.submit(restart)
            try:
                browser.run("restart during a turn", gateway, folder)
            finally:
                if not restarted.done():
                    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
            restarted.result()


async def test_a_page_shows_that_the_node_of_its_session_was_lost(browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("nats")
    from tests.cluster.nats_servers import nats_server
    from tests.cluster.test_node_processes import client, new_shared_token, node

    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    (project / ".accord-volume").write_text("v1")
    shared = {"volumes": {"team": str(project)}, "homes": {Path(sys.executable).name: "h1"}}
    with nats_server(tmp_path / "nats") as server:
        prefix = server.settings().prefix
        token = await new_shared_token(server, prefix)
        with node(server, home, prefix, "b", **shared) as b, node(server, home, prefix, "a", **shared) as a:
            async with client(a, token) as at_a:
                session = await at_a.new_session(project)
                await session.ask("count 3")
                await asyncio.to_thread(
                    browser.run,
                    "a node is lost during a turn",
                    b,
                    project,
                    link=f"{b.url}/#token={token}",
                    killCommand=["kill", "-9", str(a.pid)],
                )
