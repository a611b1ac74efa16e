"""Prepares a release: one version and one repository address everywhere, and the checklist.

python tools/release.py metadata [--version 1.2.3] [--repository https://...]
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE_ADDRESS = "https://example.org/"
VERSION = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?"
# Each pattern has the value as its only group. The first file of a table holds the value that counts.
VERSIONS = {
    "pyproject.toml": [rf'^version = "({VERSION})"$'],
    "src/accord/__init__.py": [rf'^__version__ = "({VERSION})"$'],
    "packages/accord-agent/pyproject.toml": [
        rf'^version = "({VERSION})"$',
        rf'"accord\[agent,mcp\]==({VERSION})"',
    ],
    "packages/accord-agent/agent.json": [
        rf'"version": "({VERSION})"',
        rf'"accord-agent@({VERSION})"',
        rf'"accord-agent==({VERSION})"',
    ],
    "packages/npx/package.json": [rf'^  "version": "({VERSION})"'],
}
REPOSITORIES = {
    "pyproject.toml": [r'^Repository = "([^"]+)"$'],
    "packages/accord-agent/pyproject.toml": [r'^Repository = "([^"]+)"$'],
    "packages/accord-agent/agent.json": [r'^  "repository": "([^"]+)"'],
    "packages/npx/package.json": [r'^  "repository": "([^"]+)"'],
}


def metadata(table: dict[str, list[str]], value: str | None, root: Path = ROOT) -> str:
    """Write a value to all its places; without a value, the one of the first place. Returns the value."""
    for name, patterns in table.items():
        path = root / name
        text = path.read_text("utf-8")
        for pattern in patterns:
            match = re.search(pattern, text, re.MULTILINE)
            if match is None:
                sys.exit(f"release: {name} has no place for the value ({pattern})")
            value = value or str(match[1])
            text = text[: match.start(1)] + value + text[match.end(1) :]
        path.write_text(text, "utf-8")
    return value or ""


def current(key: str, root: Path = ROOT) -> str:
    """Return the version or the repository address of `pyproject.toml`."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return project["version"] if key == "version" else project["urls"]["Repository"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    change = commands.add_parser("metadata", help="write the version and the repository address everywhere")
    change.add_argument("--version", help="new version (default: the one of pyproject.toml)")
    change.add_argument("--repository", help="new address (default: the one of pyproject.toml)")
    options = parser.parse_args()
    if options.version is not None and not re.fullmatch(VERSION, options.version):
        sys.exit(f"release: {options.version!r} is not a version like 1.2.3")
    print(f"version {metadata(VERSIONS, options.version)}")
    print(f"repository {metadata(REPOSITORIES, options.repository)}")


if __name__ == "__main__":
    main()
