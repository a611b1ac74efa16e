"""The public modules with their names, as docs/client.md#public-modules lists them."""

import ast
import importlib
import inspect
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "accord"

MODULES: dict[str, tuple[str, ...]] = {
    "accord.agent": (),
    "accord.client": (),
    "accord.proxy": (),
    "accord.session": (),
    "accord.errors": (),
    "accord.workspace": (),
    "accord.policy": (),
    "accord.frontend.policy_handler": (
        "action_request",
        "by_policy",
        "decide",
        "refusal",
        "session_directories",
    ),
    "accord.store": (),
    "accord.trace": (),
    "accord.testing": (),
    "accord.testing.model_server": (),
    "accord.wire.stdio": ("StdioTransport",),
    "accord.wire.transport": ("Frame", "OversizedFrame", "Receiver", "Transport", "TransportEnd"),
    "accord.wire.memory_transport": ("MemoryTransport", "memory_pair"),
    "accord.safe_text": ("TextCleaner", "clean_line", "clean_text", "one_line", "visible"),
    "accord.schema": (),
}
"""In the order of the reference, each with its names; without names, `__all__` or all its classes and types.
Each name of `accord` is also in one of them."""


def public_names(module: str) -> list[str]:
    """Return the public names of a module."""
    if MODULES.get(module):
        return list(MODULES[module])
    loaded = importlib.import_module(module)
    listed: list[str] | None = getattr(loaded, "__all__", None)
    if listed is not None:
        return [name for name in listed if name != "__version__"]
    if module == "accord.errors":
        return [name for name, value in vars(loaded).items() if _is_own_class(value, module)]
    return sorted(name for name in vars(loaded) if not name.startswith("_") and not _is_module(loaded, name))


def _is_own_class(value: object, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module


def _is_module(loaded: ModuleType, name: str) -> bool:
    return isinstance(getattr(loaded, name), ModuleType)


def home_of(name: str) -> str:
    """Return the public module that has a name of `accord`."""
    return next(module for module in MODULES if name in public_names(module))


def text_below(name: str, module: str) -> str:
    """Return the text below the definition of a type alias or a constant; without one, an empty text."""
    folder = PACKAGE.joinpath(*module.split(".")[1:])
    files = [*folder.glob("*.py")] if folder.is_dir() else [folder.with_suffix(".py")]
    if module != "accord.schema":
        files += folder.parent.glob("*.py")
    return next((texts[name] for file in files if name in (texts := _texts_below(file))), "")


@cache
def _texts_below(file: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for node, after in pairwise(ast.parse(file.read_text("utf-8")).body):
        match node, after:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
            case _:
                pass
    return found
