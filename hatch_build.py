"""Adds the gateway's page to the source distribution and the wheel; builds it first if that is needed."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Builds the page of `accord serve` with npm, unless it is there already.

    A source distribution always carries the page, so that a wheel built from it needs no Node. Only a wheel
    built from a checkout without Node lacks the page; a one-line warning says so.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        page, source = root / "src" / "accord" / "gateway" / "page", root / "web"
        # In an editable install the developer builds the page with `make web`.
        if version == "editable" or (page / "index.html").is_file():
            return
        problem = _build_page(source, page)
        if problem is None:
            return
        if self.target_name == "sdist":
            self.app.abort(f"accord: {problem}; the sdist needs the gateway's page (run `make web`)")
        self.app.display_warning(
            f"accord: {problem}; the wheel does not include the gateway's page (everything else works)"
        )


def _build_page(source: Path, page: Path) -> str | None:
    """Build the page and return None, or the reason why it could not be built."""
    npm = shutil.which("npm")
    if npm is None or not (source / "package.json").is_file():
        return "npm not found"
    try:
        for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run([npm, *command], cwd=source, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(page, ignore_errors=True)
        return f"building the page failed ({_last_line(error)})"
    return None


def _last_line(error: Exception) -> str:
    output = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    lines = [line for line in str(output).splitlines() if line.strip()]
    return lines[-1] if lines else "npm failed"
