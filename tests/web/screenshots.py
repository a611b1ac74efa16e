"""Creates the screenshots of the page: `python -m tests.web.screenshots` writes docs/images/page-*.png.

Runs a real gateway with `screenshot_agent.py`, and `web/e2e/screenshots.mjs` in Chromium. Needs `make web`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cli.serve.gateway_process import accord, running_gateway
from tests.web.screenshot_agent import CODE, FILE

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
SCREENSHOTS = (
    "phone-notifications",
    "new-session",
    "approval",
    "inbox",
    "home",
    "settings",
    "phone",
    "phone-sessions",
    "dark",
    "review",
)


def main() -> None:
    node, chromium = shutil.which("node"), shutil.which("chromium") or shutil.which("google-chrome")
    if node is None or chromium is None:
        sys.exit("the screenshots need node and chromium on PATH")
    with tempfile.TemporaryDirectory() as root:
        home, projects = Path(root, "accord"), Path(root, "home", "me")
        for name in ("greeter", "parser"):
            (projects / name).mkdir(parents=True)
        (projects / "greeter" / FILE).write_text(CODE, "utf-8")
        git = ("git", "-c", "user.name=me", "-c", "user.email=me@example.com")
        for words in (("init", "--quiet", "-b", "main"), ("add", "-A"), ("commit", "--quiet", "-m", "first")):
            subprocess.run([*git, *words], cwd=projects / "greeter", check=True)
        home.mkdir()
        program = Path(__file__).with_name("screenshot_agent.py")
        accord(home, "agents", "add", "example", "--", sys.executable, str(program))
        with running_gateway(
            home, "example", "accord", "--no-qr", "--cwd", str(projects / "greeter")
        ) as gateway:
            environment = {
                **os.environ,
                "ACCORD_E2E_LINK": f"{gateway.url}/#token={gateway.token}",
                "ACCORD_E2E_FOLDER": str(projects),
                "ACCORD_E2E_CHROMIUM": chromium,
                "ACCORD_E2E_IMAGES": str(IMAGES),
            }
            subprocess.run([node, "e2e/screenshots.mjs"], cwd=ROOT / "web", env=environment, check=True)


if __name__ == "__main__":
    main()
