"""The gateway's page: its own tests, and a real Chromium in front of a real gateway with the real coding agent."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.serve.gateway_process import GatewayProcess, accord, running_gateway
from tests.requirements import need_node

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
SCENES = (
    "a whole turn",
    "approval",
    "reload in mid-turn",
    "two tabs on one session",
    "connection cut",
    "for everyone",
    "pictures, links, forms, and a gateway that forgot",
    "hostile content",
)
UNRULY = (
    "agents that fail",
    "an agent that lies",
    "a long answer",
    "tokens, tabs and drafts",
)


def _need_packages(*names: str) -> str:
    """Where npm's packages of the page are not installed there is nothing to try, so that is no failure."""
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


def _ran(words: list[str], **env: str) -> None:
    done = subprocess.run(
        words,
        cwd=WEB,
        env={**os.environ, "NO_COLOR": "1", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]


@pytest.mark.timeout(300)
def test_the_page_passes_its_own_tests() -> None:
    node = _need_packages("vitest", "jsdom")
    _ran([node, "node_modules/vitest/vitest.mjs", "run"])


@pytest.mark.timeout(300)
def test_the_page_type_checks() -> None:
    node = _need_packages("typescript")
    _ran([node, "node_modules/typescript/bin/tsc", "--noEmit"])


def test_the_lock_file_holds_no_addresses() -> None:
    assert '"resolved"' not in (WEB / "package-lock.json").read_text("utf-8")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    _need_page()
    home = tmp_path_factory.mktemp("home")
    with running_gateway(
        home, "accord", "--no-qr", "--log", str(home / "log"), ACCORD_MODEL="rehearsal"
    ) as running:
        yield running
        running.signal()
        running.end()


def _play(scene: str, gateway: GatewayProcess, folder: Path, **more: str) -> None:
    node, chromium = _need_packages("playwright-core", "axe-core"), _need_chromium()
    (folder / "README.md").write_text("# Read me\n\nA small project.\n", "utf-8")
    _ran(
        [node, "e2e/run.mjs", scene],
        ACCORD_E2E_LINK=f"{gateway.url}/#token={gateway.token}",
        ACCORD_E2E_FOLDER=str(folder),
        ACCORD_E2E_CHROMIUM=chromium,
        **more,
    )


@pytest.mark.timeout(400)
@pytest.mark.parametrize("scene", SCENES)
def test_in_a_browser(scene: str, gateway: GatewayProcess, tmp_path: Path) -> None:
    _play(scene, gateway, tmp_path)


@pytest.fixture(scope="module")
def unruly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, Path]]:
    """A gateway whose agents are played by hand; the default one cannot start."""
    _need_page()
    home = tmp_path_factory.mktemp("unruly")
    actor = Path(__file__).with_name("actor.py")
    names = ("broken", "actor", "locked")
    for name in names:
        accord(home, "agents", "add", name, "--", sys.executable, str(actor), name)
    with running_gateway(home, *names, "--no-qr", "--log", str(home / "log")) as running:
        yield running, home
        running.signal()
        running.end()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("scene", UNRULY)
def test_in_a_browser_with_agents_that_fail_or_lie(
    scene: str, unruly: tuple[GatewayProcess, Path], tmp_path: Path
) -> None:
    gateway, home = unruly
    _, reader, _ = accord(home, "serve", "token", "new", "--read-only", "--plain", "--name", "reader")
    revoking = [sys.executable, "-m", "accord.cli", "serve", "token", "revoke"]
    _play(
        scene,
        gateway,
        tmp_path,
        ACCORD_HOME=str(home),
        ACCORD_E2E_READER=reader.strip(),
        ACCORD_E2E_REVOKE=json.dumps(revoking),
    )
