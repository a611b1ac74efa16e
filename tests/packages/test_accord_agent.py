"""The `accord-agent` distribution: versions, build, start, and its registry entry."""

import copy
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.packages.registry import entry_problems, icon_problems
from tools import release

import accord

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packages" / "accord-agent"


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def entry() -> Any:
    return json.loads((FOLDER / "agent.json").read_text())


def test_all_packages_have_one_version_license_and_repository(tmp_path: Path) -> None:
    npx = json.loads((ROOT / "packages" / "npx" / "package.json").read_text())
    packages = [project(ROOT), project(FOLDER), entry(), npx]
    assert {package["version"] for package in packages} == {accord.__version__}
    assert {package["license"] for package in packages} == {"Apache-2.0"}
    assert project(FOLDER)["dependencies"] == [f"accord[agent,mcp]=={accord.__version__}"]
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    address = project(ROOT)["urls"]["Repository"]
    assert [project(FOLDER)["urls"]["Repository"], entry()["repository"], npx["repository"]] == [address] * 3


def test_one_command_changes_the_version_and_the_repository(tmp_path: Path) -> None:
    for name in release.VERSIONS | release.REPOSITORIES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert release.metadata(release.VERSIONS, None, tmp_path) == accord.__version__
    assert (tmp_path / "pyproject.toml").read_bytes() == (ROOT / "pyproject.toml").read_bytes()
    assert release.metadata(release.VERSIONS, "8.7.6", tmp_path) == "8.7.6"
    release.metadata(release.REPOSITORIES, "https://code.test/accord", tmp_path)
    folder = tmp_path / "packages" / "accord-agent"
    assert project(tmp_path)["version"] == project(folder)["version"] == "8.7.6"
    assert project(folder)["dependencies"] == ["accord[agent,mcp]==8.7.6"]
    changed = json.loads((folder / "agent.json").read_text())
    assert changed["repository"] == project(tmp_path)["urls"]["Repository"] == "https://code.test/accord"
    shutil.copy(FOLDER / "icon.svg", folder)
    assert entry_problems(changed, folder) == []


def test_the_release_checklist_finds_what_is_not_ready(tmp_path: Path) -> None:
    for name in [*release.VERSIONS, "CHANGELOG.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    release.metadata(release.VERSIONS, "8.7.6", tmp_path)
    release.metadata(release.REPOSITORIES, "https://code.test/accord", tmp_path)
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(
        "# Changelog\n\n## 8.7.6 (2030-01-02)\n\n- New.\n\n## 8.7.5 (2029-01-02)\n\n- Old.\n"
    )
    assert release.metadata_problems(tmp_path, "v8.7.6") == []
    assert release.notes(tmp_path) == "## 8.7.6 (2030-01-02)\n\n- New.\n"
    changelog.write_text("# Changelog\n\n## 8.7.6 (unreleased)\n")
    init = tmp_path / "src" / "accord" / "__init__.py"
    init.write_text(init.read_text().replace("8.7.6", "8.7.5"))
    release.metadata(release.REPOSITORIES, f"{release.EXAMPLE_ADDRESS}accord", tmp_path)
    assert release.metadata_problems(tmp_path, "v8.7.5") == [
        "src/accord/__init__.py does not have 8.7.6; run `release.py metadata`",
        "the repository is https://example.org/accord; run `release.py metadata --repository URL`",
        "the tag v8.7.5 is not v8.7.6",
        "CHANGELOG.md begins with '## 8.7.6 (unreleased)', not `## 8.7.6 (YYYY-MM-DD)`",
    ]


def test_the_registry_entry_is_valid() -> None:
    assert entry_problems(entry(), FOLDER) == []


def test_uvx_starts_the_script_named_like_the_package() -> None:
    package = entry()["distribution"]["uvx"]["package"].partition("==")[0]
    assert package == project(FOLDER)["name"]
    npx = json.loads((ROOT / "packages" / "npx" / "package.json").read_text())
    assert entry()["distribution"]["npx"]["package"] == f"{npx['name']}@{npx['version']}"
    assert project(FOLDER)["scripts"] == {package: "accord.cli.agent_command:script"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"id": "Accord"}, "does not match"),
        ({"id": "accord"}, "not the name of its folder"),
        ({"version": "0.1"}, "does not match"),
        ({"version": "9.9.9"}, "not pinned to 9.9.9"),
        ({"description": ""}, "non-empty"),
        ({"distribution": {}}, "non-empty"),
        ({"distribution": {"uvx": {"package": "accord-agent@latest"}}}, "not pinned"),
        ({"distribution": {"uvx": {"package": "accord-agent", "cmd": "x"}}}, "Additional properties"),
        ({"icon": "x.svg"}, "Additional properties"),
    ],
)
def test_invalid_registry_entries_are_refused(change: dict[str, Any], expected: str) -> None:
    assert expected in entry_problems({**copy.deepcopy(entry()), **change}, FOLDER)[0]
    assert icon_problems('<svg xmlns="http://www.w3.org/2000/svg" fill="#f00"/>') == [
        "it is not 16 by 16",
        "fill=#f00 on svg",
    ]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build both wheels from the current tree, without the network."""
    if find_spec("hatchling") is None or find_spec("pip") is None:
        pytest.skip("hatchling and pip are needed to build the wheels")
    folder = tmp_path_factory.mktemp("wheels")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT), str(FOLDER))
    return sorted(folder.glob("*.whl"))


def pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input", *words]
    run = subprocess.run([*command, "--no-index"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_wheels_contain_all_files(wheels: list[Path]) -> None:
    version = accord.__version__
    assert [wheel.name for wheel in wheels] == [
        f"accord-{version}-py3-none-any.whl",
        f"accord_agent-{version}-py3-none-any.whl",
    ]
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = set(wheel.namelist())
    source = ROOT / "src"
    data = {
        str(file.relative_to(source))
        for file in (source / "accord").rglob("*")
        if file.is_file() and file.suffix != ".pyc" and "__pycache__" not in file.parts
    }
    assert data <= names
    shared = {name.partition(".data/data/share/")[2] for name in names}
    pages = {f"man/man1/{page.name}" for page in (ROOT / "share" / "man" / "man1").iterdir()}
    assert pages | {"bash-completion/completions/accord", "zsh/site-functions/_accord"} <= shared
    assert "fish/vendor_completions.d/accord.fish" in shared
    with zipfile.ZipFile(wheels[1]) as wheel:
        assert all(name.startswith(f"accord_agent-{version}.dist-info/") for name in wheel.namelist())


def test_the_installed_script_starts_the_agent(wheels: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "site"
    pip("install", "--no-deps", "--target", str(target), *map(str, wheels))
    run = subprocess.run(
        [str(target / "bin" / "accord-agent"), "--mode", "nope"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(target), "ACCORD_HOME": str(tmp_path)},
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("accord agent: unknown mode 'nope'")
