"""The wheel brings the page along; without Node it is built without, and says so in one line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PAGE = Path("src", "accord", "gateway", "page")


def _build(root: Path, into: Path, **env: str) -> tuple[list[str], str]:
    """The names in the wheel, and what the build said."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
        cwd=root,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = into.glob("*.whl")
    with ZipFile(wheel) as archive:
        return archive.namelist(), done.stdout + done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of a checkout as a build needs."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    package = tmp_path / "src" / "accord"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "accord" / "__init__.py", package)
    (tmp_path / ".gitignore").write_text(f"{PAGE.as_posix()}/\n", "utf-8")
    return tmp_path


def test_a_page_that_was_built_goes_into_the_wheel(checkout: Path) -> None:
    assets = checkout / PAGE / "assets"
    assets.mkdir(parents=True)
    (checkout / PAGE / "index.html").write_text("<!doctype html>", "utf-8")
    (assets / "index-12345678.js").write_text("", "utf-8")
    names, _ = _build(checkout, checkout / "dist")
    assert {"accord/gateway/page/index.html", "accord/gateway/page/assets/index-12345678.js"} <= set(names)


def test_without_node_the_wheel_is_built_and_one_line_says_what_is_missing(checkout: Path) -> None:
    names, said = _build(checkout, checkout / "dist", PATH=str(checkout))
    assert "accord/__init__.py" in names
    assert not [name for name in names if "gateway/page" in name]
    assert [line for line in said.splitlines() if "page" in line] == [
        "accord: built without the gateway's page, because npm was not found; all else works"
    ]
