"""`make interop`: run real agents and clients with Accord, and write the tables of docs/interop.md.

Every agent gets a temporary home and talks to the scripted model server. A failure becomes a cell.
"""

import argparse
import asyncio
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.real_programs.agent_exchange import COLUMNS, AgentExchange, AgentProgram, log_name
from tests.real_programs.client_exchange import CLIENT_COLUMNS, ClientProgram, run_client

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "interop.md"
FOLDER = ROOT / ".venv-contenders" / "interop"
_INSTALL_SECONDS = 600
_AGENT_SECONDS = 600


def install(package: str, extra: Iterable[str] = ()) -> Path:
    """Install a package into a folder of its own, once, and return the folder of its programs."""
    if not package:
        return Path(sys.executable).parent
    registry, _, name = package.partition(":")
    folder = FOLDER / re.sub(r"[^\w.@=-]", "-", name.lstrip("@"))
    programs = folder / ("node_modules/.bin" if registry == "npm" else "bin")
    if (folder / "installed").exists():
        return programs
    folder.mkdir(parents=True, exist_ok=True)
    if registry == "npm":
        commands = [
            ["npm", "install", "--prefix", folder, "--silent", "--no-audit", "--no-fund", name, *extra]
        ]
    else:
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        commands = [[sys.executable, "-m", "venv", folder], [*pip, name, *extra]]
    for command in commands:
        subprocess.run(command, check=True, timeout=_INSTALL_SECONDS, stdout=subprocess.DEVNULL)
    (folder / "installed").touch()
    return programs


async def agent_row(program: AgentProgram, log: Path) -> list[str]:
    """Return the row of an agent. Never raises for what the agent does."""
    cells: dict[str, str] = {}
    exchange = None
    try:
        exchange = AgentExchange(program, install(program.package, program.extra))
        async with asyncio.timeout(_AGENT_SECONDS):
            await exchange.run()
    except subprocess.SubprocessError:
        cells["text"] = "cannot be installed here"
    except Exception as error:  # noqa: BLE001 - one agent must not end the run
        cells["text"] = f"{type(error).__name__}: {error}"[:70]
    if exchange is not None:
        cells |= exchange.cells
        (log / log_name(program.name)).write_text("\n".join(exchange.log))
    row = [program.name, program.version, *(cells.get(column, "") for column in COLUMNS)]
    sys.stdout.write(" | ".join(row) + "\n")
    sys.stdout.flush()
    return row


def write_table(name: str, head: Iterable[str], rows: Iterable[list[str]], *, partly: bool) -> None:
    """Write a table of the page between its two comments; partly means that the other rows are kept."""
    page = PAGE.read_text("utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n\n)(.*?)(\n<!-- end of {name} -->)", re.DOTALL)
    match = pattern.search(page)
    assert match is not None, f"{PAGE} has no place for the table of {name}"
    columns = list(head)
    known = [line.strip("| ").split(" | ") for line in match[2].splitlines()[2:]] if partly else []
    by_name = {row[0]: row for row in [*known, *([cell.replace("|", "/") for cell in row] for row in rows)]}
    lines = [columns, ["---"] * len(columns), *by_name.values()]
    text = "".join(f"| {' | '.join([*line, *[''] * (len(columns) - len(line))])} |\n" for line in lines)
    PAGE.write_text(page[: match.start(2)] + text + page[match.end(2) :], "utf-8")


def _each_version(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An entry for every protocol version of an agent."""
    result: list[dict[str, Any]] = []
    for entry in entries:
        for version in entry.pop("protocols", [1]):
            name = entry["name"] if version == 1 else f"{entry['name']} in version {version}"
            result.append({**entry, "name": name, "protocol": version})
    return result


def _convert(entries: list[dict[str, Any]], kind: Any) -> list[Any]:
    listed = ("command", "extra", "setup", "allow", "deny")
    return [
        kind(**{key: tuple(value) if key in listed else value for key, value in one.items()})
        for one in entries
    ]


async def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real_programs", description=__doc__)
    parser.add_argument(
        "--only", metavar="NAME", action="append", help="run only this one; keeps the other rows"
    )
    options = parser.parse_args()
    programs = tomllib.loads(Path(__file__).with_name("programs.toml").read_text("utf-8"))
    agents: list[AgentProgram] = _convert(_each_version(programs["agent"]), AgentProgram)
    clients: list[ClientProgram] = _convert(programs["client"], ClientProgram)
    log = FOLDER / "logs"
    log.mkdir(parents=True, exist_ok=True)
    wanted = [name.casefold() for name in options.only or ()]
    rows = [await agent_row(one, log) for one in agents if not wanted or one.name.casefold() in wanted]
    client_rows = [
        run_client(one, install, log) for one in clients if not wanted or one.name.casefold() in wanted
    ]
    partly = bool(wanted)
    write_table("agents", ["agent", "version", *COLUMNS], rows, partly=partly)
    write_table("clients", ["client", "version", *CLIENT_COLUMNS], client_rows, partly=partly)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
