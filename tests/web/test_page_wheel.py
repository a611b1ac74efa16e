"""The source distribution carries the built page, so that a wheel built from it without Node has it too."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PAGE = Path("src", "accord", "gateway", "page")


def _build(root: Path, target: str) -> tuple[int, str]:
    """Build without Node on PATH; return the exit code and the output."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(root / "dist")]
    env = {**os.environ, "PATH": str(root)}
    result = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def _names(root: Path) -> set[str]:
    (wheel,) = (root / "dist").glob("*.whl")
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


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


def test_wheel_from_the_source_distribution_has_the_page_without_node(checkout: Path, tmp_path: Path) -> None:
    assets = checkout / PAGE / "assets"
    assets.mkdir(parents=True)
    (checkout / PAGE / "index.html").write_text("<!doctype html>", "utf-8")
    (assets / "index-12345678.js").write_text("", "utf-8")
    code, output = _build(checkout, "sdist")
    assert code == 0, output
    (archive,) = (checkout / "dist").glob("*.tar.gz")
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path / "unpacked"], check=True)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    code, output = _build(unpacked, "wheel")
    assert (code, "npm" in output) == (0, False), output
    assert {"accord/gateway/page/index.html", "accord/gateway/page/assets/index-12345678.js"} <= _names(
        unpacked
    )


def test_source_distribution_without_page_and_node_is_refused(checkout: Path) -> None:
    code, output = _build(checkout, "sdist")
    assert (code, list((checkout / "dist").glob("*.tar.gz"))) == (1, [])
    assert "accord: npm not found; the sdist needs the gateway's page (run `make web`)" in output


def test_wheel_of_a_checkout_without_node_has_no_page_and_warns_in_one_line(checkout: Path) -> None:
    code, output = _build(checkout, "wheel")
    names = _names(checkout)
    assert code == 0
    assert "accord/__init__.py" in names
    assert not [name for name in names if "gateway/page" in name]
    assert [line for line in output.splitlines() if "page" in line] == [
        "accord: npm not found; the wheel does not include the gateway's page (everything else works)"
    ]
