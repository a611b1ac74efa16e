"""Programs that run outside the sandbox are never those of the project, although PATH leads there."""

import os
from pathlib import Path

import pytest

from accord.policy.installed_program import installed_program, safe_search_path


def program(folder: Path, name: str = "tool") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_programs_of_the_project_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    own = program(project / ".venv" / "bin")
    installed = program(tmp_path / "bin")
    (tmp_path / "linked").symlink_to(own.parent)
    (project / "own").symlink_to(installed.parent)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "tool").symlink_to(own)
    monkeypatch.chdir(project)
    inside = [own.parent, tmp_path / "linked", project / "own", tmp_path / "links", ".venv/bin", "."]
    for place in inside:
        assert installed_program("tool", [project], str(place)) is None, place
    path = os.pathsep.join(map(str, [*inside, "", installed.parent]))
    assert installed_program("tool", [project], path) == str(installed)
    assert installed_program("tool", [], path) == str(own)
    assert safe_search_path([project], path).split(os.pathsep) == [
        str(tmp_path / "links"),
        str(installed.parent),
    ]


def test_a_path_is_taken_as_it_is_outside_of_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    own, installed = program(project), program(tmp_path / "bin")
    assert installed_program(str(installed), [project], "") == str(installed)
    assert installed_program(str(own), [project], "") is None
    assert installed_program("bin/tool", [project], str(tmp_path)) is None
    assert installed_program(str(tmp_path / "missing"), []) is None
