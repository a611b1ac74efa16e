"""Adds the gateway's page to the wheel; builds the page first if needed and if Node is installed."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Builds the page of `accord serve`, or warns in one line that the wheel does not include it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        page, source = root / "src" / "accord" / "gateway" / "page", root / "web"
        # In an editable install the developer builds the page with `make web`.
        if version == "editable" or (page / "index.html").is_file():
            return
        npm = shutil.which("npm")
        if npm is None or not (source / "package.json").is_file():
            self.app.display_warning(
                "accord: npm not found; the wheel does not include the gateway's page (everything else works)"
            )
            return
        try:
            for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
                subprocess.run([npm, *command], cwd=source, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(page, ignore_errors=True)
            self.app.display_warning(
                f"accord: the wheel has no gateway page, because its build failed: {_last_line(error)}"
            )


def _last_line(error: Exception) -> str:
    output = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    lines = [line for line in str(output).splitlines() if line.strip()]
    return lines[-1] if lines else "npm failed"
