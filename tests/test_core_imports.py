"""The core (schema, wire, session, agent, client, workspace) needs msgspec, platformdirs and Python only."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
CORE = ("schema", "wire", "session", "agent", "client", "workspace")
OPTIONAL_PART = SOURCE / "accord" / "wire" / "remote"
"""The extra `remote`. Its libraries are imported when a client connects to an address."""

LIBRARIES = frozenset(("msgspec", "platformdirs"))

EXCEPTIONS = {
    # `serve` uses the faster event loop if the extra is installed.
    ("accord.agent.app", "uvloop"),
    # Without it, the search skips common generated folders instead of what git ignores.
    ("accord.workspace.file_search", "rignore"),
}
"""Imports within a function, of a library whose absence is handled there."""

BUILDING_BLOCKS = frozenset(
    ("clock", "errors", "lazy_names", "paths", "private_files", "safe_text", "telemetry", "trace")
)
"""Our modules outside the core that the core may import; the test below also loads what these import.

`telemetry` is the one that imports another library, opentelemetry-api, and only when `OTEL_*` switches it on.
"""


def core_files() -> list[Path]:
    files = (file for package in CORE for file in (SOURCE / "accord" / package).rglob("*.py"))
    return sorted(file for file in files if not file.is_relative_to(OPTIONAL_PART))


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def imported_modules(file: Path) -> Iterator[str]:
    """Every import of a file, also those within functions and for type checkers."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            assert node.module is not None
            yield node.module


def test_the_core_imports_only_its_two_libraries() -> None:
    imports = {
        (module_name(file), module.partition(".")[0])
        for file in core_files()
        for module in imported_modules(file)
    }
    known = sys.stdlib_module_names | LIBRARIES | {"accord"}
    assert {pair for pair in imports if pair[1] not in known} == EXCEPTIONS


def test_the_core_imports_only_building_blocks_from_outside() -> None:
    outside = {
        (module_name(file), module)
        for file in core_files()
        for module in imported_modules(file)
        if module.startswith("accord.") and module.split(".")[1] not in {*CORE, *BUILDING_BLOCKS}
    }
    assert outside == set()


def test_loading_the_whole_core_loads_no_other_library() -> None:
    modules = [module_name(file) for file in core_files() if file.name != "__main__.py"]
    assert len(modules) > 50, "the files of the core were found"
    code = (
        "import importlib, sys\n"
        "before = set(sys.modules)\n"  # an environment may load modules at every start
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}"
        " - sys.stdlib_module_names))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code, *modules], capture_output=True, text=True, check=True
    )
    # msgspec imports typing_extensions where it is installed.
    assert set(loaded.stdout.split()) - {"typing_extensions"} <= {"accord", *LIBRARIES}
