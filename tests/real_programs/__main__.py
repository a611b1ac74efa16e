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


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write_table(name: str, text: str) -> None:
    """Replace a table of the page, between its two comments."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end of {name} -->)", re.DOTALL)
    page = PAGE.read_text("utf-8")
    PAGE.write_text(pattern.sub(lambda match: f"{match[1]}\n{text}{match[2]}", page), "utf-8")


def _convert(entries: list[dict[str, Any]], kind: Any) -> list[Any]:
    listed = ("command", "extra", "setup", "allow", "deny")
    return [
        kind(**{key: tuple(value) if key in listed else value for key, value in one.items()})
        for one in entries
    ]


async def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real_programs", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="run only this one; writes no table")
    options = parser.parse_args()
    programs = tomllib.loads(Path(__file__).with_name("programs.toml").read_text("utf-8"))
    agents: list[AgentProgram] = _convert(programs["agent"], AgentProgram)
    clients: list[ClientProgram] = _convert(programs["client"], ClientProgram)
    log = FOLDER / "logs"
    log.mkdir(parents=True, exist_ok=True)
    wanted = [name.casefold() for name in options.only or ()]
    rows = [await agent_row(one, log) for one in agents if not wanted or one.name.casefold() in wanted]
    client_rows = [
        run_client(one, install, log) for one in clients if not wanted or one.name.casefold() in wanted
    ]
    if not wanted:
        write_table("agents", table(["agent", "version", *COLUMNS], rows))
        write_table("clients", table(["client", "version", *CLIENT_COLUMNS], client_rows))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
