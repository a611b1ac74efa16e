"""Prepares a release: one version and one repository address everywhere, and the checklist.

python tools/release.py metadata [--version 1.2.3] [--repository https://...]
python tools/release.py check [--tag v1.2.3] [--full]
python tools/release.py notes
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
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


def places(table: dict[str, list[str]], root: Path = ROOT) -> list[tuple[str, str]]:
    """Return each file with a value in it."""
    return [
        (name, value)
        for name, patterns in table.items()
        for pattern in patterns
        for value in re.findall(pattern, (root / name).read_text("utf-8"), re.MULTILINE)
    ]


def notes(root: Path = ROOT) -> str:
    """Return the newest section of the changelog, with its heading."""
    text = (root / "CHANGELOG.md").read_text("utf-8")
    match = re.search(r"^## .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return match[0].strip() + "\n" if match is not None else ""


def metadata_problems(root: Path = ROOT, tag: str | None = None) -> list[str]:
    """Return what is wrong with the version, the address and the changelog."""
    problems: list[str] = []
    version, repository = places(VERSIONS, root)[0][1], places(REPOSITORIES, root)[0][1]
    for expected, table in ((version, VERSIONS), (repository, REPOSITORIES)):
        found = [name for name, value in places(table, root) if value != expected]
        problems += [f"{name} does not have {expected}; run `release.py metadata`" for name in found]
    if repository.startswith(EXAMPLE_ADDRESS):
        problems.append(f"the repository is {repository}; run `release.py metadata --repository URL`")
    if tag is not None and tag != f"v{version}":
        problems.append(f"the tag {tag} is not v{version}")
    heading = notes(root).partition("\n")[0]
    if not re.fullmatch(rf"## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading):
        problems.append(f"CHANGELOG.md begins with {heading!r}, not `## {version} (YYYY-MM-DD)`")
    return problems


def command_problems(*words: str) -> list[str]:
    """Run a command; return its last lines if it fails."""
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return [] if done.returncode == 0 else lines[-5:] or [f"exit code {done.returncode}"]


def tree_problems() -> list[str]:
    """Return the files that are not committed."""
    done = subprocess.run(["git", "status", "--short"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [f"not committed: {line}" for line in done.stdout.splitlines()]


def check(tag: str | None, *, full: bool) -> int:
    """Go through the checklist and return the exit code."""
    pytest = (sys.executable, "-m", "pytest", "-q")
    steps: list[tuple[str, Callable[[], list[str]]]] = [
        ("version, address and changelog", lambda: metadata_problems(tag=tag)),
        ("everything is committed", tree_problems),
        ("packages, constraints, workflows", lambda: command_problems(*pytest, "tests/packages")),
        (
            "completion scripts and man pages",
            lambda: command_problems(*pytest, "tests/cli/test_completion.py"),
        ),
    ]
    targets = ("check", "test", "conform", "mutants", "soak MINUTES=60") if full else ()
    steps += [(f"make {name}", partial(command_problems, "make", *name.split())) for name in targets]
    failed = 0
    for title, find in steps:
        problems = find()
        failed += bool(problems)
        print(
            f"{'FAILED' if problems else 'ok':<7}{title}", *[f"       {line}" for line in problems], sep="\n"
        )
    if not failed:
        print(f"Next: git tag -s v{places(VERSIONS)[0][1]} && git push --tags; a workflow publishes it.")
    return 1 if failed else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    change = commands.add_parser("metadata", help="write the version and the repository address everywhere")
    change.add_argument("--version", help="new version (default: the one of pyproject.toml)")
    change.add_argument("--repository", help="new address (default: the one of pyproject.toml)")
    checklist = commands.add_parser("check", help="go through the checklist")
    checklist.add_argument("--tag", help="tag that must belong to the version")
    checklist.add_argument(
        "--full", action="store_true", help="also run all tests, mutants and an hour of soak"
    )
    commands.add_parser("notes", help="print the changelog of the newest version")
    options = parser.parse_args()
    if options.command == "check":
        sys.exit(check(options.tag, full=options.full))
    if options.command == "notes":
        sys.stdout.write(notes())
        return
    if options.version is not None and not re.fullmatch(VERSION, options.version):
        sys.exit(f"release: {options.version!r} is not a version like 1.2.3")
    print(f"version {metadata(VERSIONS, options.version)}")
    print(f"repository {metadata(REPOSITORIES, options.repository)}")


if __name__ == "__main__":
    main()
