"""The build of the wheel takes the gateway's page along: it is built first where that has not been done and Node is there."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Builds the page of `accord serve`, or says in one line that it will be missing."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        page, source = root / "src" / "accord" / "gateway" / "page", root / "web"
        # A checkout in use builds the page when it wants to, with `make web`.
        if version == "editable" or (page / "index.html").is_file():
            return
        npm = shutil.which("npm")
        if npm is None or not (source / "package.json").is_file():
            self.app.display_warning(
                "accord: built without the gateway's page, because npm was not found; all else works"
            )
            return
        try:
            for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
                subprocess.run([npm, *command], cwd=source, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(page, ignore_errors=True)
            self.app.display_warning(f"accord: built without the gateway's page: {_last_line(error)}")


def _last_line(error: Exception) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    lines = [line for line in str(said).splitlines() if line.strip()]
    return lines[-1] if lines else "npm failed"
