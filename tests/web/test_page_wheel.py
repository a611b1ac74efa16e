"""The wheel contains the page. Without Node the wheel is built without the page, with one line of warning."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PAGE = Path("src", "accord", "gateway", "page")


def _build_wheel(root: Path, into: Path, **env: str) -> tuple[list[str], str]:
    """Return the names of the files in the wheel, and the output of the build."""
    result = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
        cwd=root,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    (wheel,) = into.glob("*.whl")
    with ZipFile(wheel) as archive:
        return archive.namelist(), result.stdout + result.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files of a checkout that a build needs."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    package = tmp_path / "src" / "accord"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "accord" / "__init__.py", package)
    (tmp_path / ".gitignore").write_text(f"{PAGE.as_posix()}/\n", "utf-8")
    return tmp_path


def test_wheel_contains_the_built_page(checkout: Path) -> None:
    assets = checkout / PAGE / "assets"
    assets.mkdir(parents=True)
    (checkout / PAGE / "index.html").write_text("<!doctype html>", "utf-8")
    (assets / "index-12345678.js").write_text("", "utf-8")
    names, _ = _build_wheel(checkout, checkout / "dist")
    assert {"accord/gateway/page/index.html", "accord/gateway/page/assets/index-12345678.js"} <= set(names)


def test_wheel_without_node_has_no_page_and_warns_in_one_line(checkout: Path) -> None:
    names, output = _build_wheel(checkout, checkout / "dist", PATH=str(checkout))
    assert "accord/__init__.py" in names
    assert not [name for name in names if "gateway/page" in name]
    assert [line for line in output.splitlines() if "page" in line] == [
        "accord: npm not found; the wheel does not include the gateway's page (everything else works)"
    ]
