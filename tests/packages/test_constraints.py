"""`constraints.txt` pins everything that `accord[all]` needs, with hashes and without a package index."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def pins() -> dict[str, tuple[str, int]]:
    """The version and the number of hashes of each package."""
    entries = re.split(r"\n(?=\w)", (ROOT / "constraints.txt").read_text())
    found: dict[str, tuple[str, int]] = {}
    for entry in entries:
        if match := re.match(r"([\w.-]+)==(\S+)", entry):
            found[match[1]] = match[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry))
    return found


def extras() -> dict[str, list[Requirement]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists: dict[str, list[str]] = {**project["optional-dependencies"], "": project["dependencies"]}
    for_developers = ("dev", "docs")
    return {
        name: list(map(Requirement, lines)) for name, lines in lists.items() if name not in for_developers
    }


def test_every_dependency_is_pinned_to_an_allowed_version_with_hashes() -> None:
    found, tables = pins(), extras()
    assert len(found) > 30
    assert [name for name, (_, hashes) in found.items() if hashes == 0] == []
    for requirement in (one for lines in tables.values() for one in lines if one.name != "accord"):
        assert found[requirement.name][0] in requirement.specifier, "run `make constraints`"


def test_the_file_names_no_package_index() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert not re.search(r"://|--(extra-)?index|--find-links| @ ", text)


def test_the_guide_lists_every_extra_with_its_packages() -> None:
    rows = re.findall(
        r"^\| `?\(?(\w+)\)?`? \|[^|]*\|([^|]*)\|$", (ROOT / "docs/install.md").read_text(), re.M
    )
    documented = {name: packages for name, packages in rows if name != "extra"}
    tables = extras()
    assert set(documented) == {name or "none" for name in tables}
    for name, requirements in tables.items():
        for requirement in requirements:
            assert name == "all" or requirement.name in documented[name or "none"]
