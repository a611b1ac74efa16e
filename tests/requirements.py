"""What some tests need from the machine: Node, the pinned packages, Chromium.

If it is missing, the test is skipped with the reason. In CI (the variable `CI` is set) the test fails.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest

NODE_MODULES = Path(__file__).parent / "node" / "node_modules"


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; in CI this must not be skipped", pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def need_node() -> str:
    """The path of `node`."""
    found = shutil.which("node")
    if found is None:
        _missing("Node is not installed (no `node` on PATH)")
    return found


def need_npm(package: str) -> Path:
    """The folder of an installed npm package, such as `@agentclientprotocol/sdk`."""
    folder = NODE_MODULES / package
    if not folder.is_dir():
        _missing(f"the npm package {package} is not installed: run `make node`")
    return folder


def need_official_examples() -> Path:
    """The folder with the examples of the official Python SDK, from its source distribution."""
    folder = Path(sys.prefix) / "official-sdk" / "examples"
    if not folder.is_dir():
        _missing(
            "the examples of the official Python SDK are missing: run `python -m tools.official_examples`"
        )
    return folder


def need_official_prerelease() -> str:
    """The Python of the environment with the official pre-release that has version 2 of the protocol."""
    folder = Path(sys.prefix) / "official-sdk" / "prerelease"
    if not folder.is_dir():
        _missing(
            "the pre-release of the official Python SDK is missing: run `python -m tools.official_examples`"
        )
    return str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")


def need_official_schemas(version: int = 1) -> Path:
    """The folder with `schema.json` and `schema.unstable.json` of a protocol version."""
    return need_npm("@agentclientprotocol/sdk") / "schema" / f"v{version}"


def need_chromium() -> str:
    """The path of a Chromium or Chrome."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    _missing("Chromium is not installed (no `chromium` on PATH)")
