"""Imports on first use: names of a package, and modules that other modules import early but rarely use."""

import gc
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

LazyGetattr: TypeAlias = Callable[[str], Any]
"""The `__getattr__` of a package."""


def lazy_names(
    package: str, modules: Mapping[str, str], prepare: Callable[[], None] = lambda: None
) -> LazyGetattr:
    """Return the `__getattr__` of a package. `modules` maps each module to its names, separated by spaces.

    `prepare` is called before each import.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        collects = gc.isenabled()
        gc.disable()  # an import leaves no garbage, and collections would take a twentieth of its time
        try:
            prepare()
            value = getattr(import_module(module), name)
        finally:
            if collects:
                gc.enable()
        setattr(sys.modules[package], name, value)
        return value

    return load


_RARELY_USED = (
    "asyncio.sslproto", "inspect", "locale", "msgspec.inspect", "platform", "ssl", "textwrap", "tokenize",
)  # fmt: skip


def import_asyncio() -> None:
    """Import asyncio and msgspec without modules that they need only for TLS, debugging and the like.

    Those would take a third of the time until an agent answers `initialize`. asyncio gets stand-ins, which
    import a module when one of its attributes is used. Every later `import` gets the module itself.
    """
    if "asyncio" in sys.modules:
        return
    stand_ins: dict[str, Any] = {name: _stand_in(name) for name in _RARELY_USED}
    if sys.platform == "linux":
        stand_ins["platform"].system = lambda: os.uname().sysname  # for `uuid`, which msgspec imports
    stand_ins["typing_extensions"] = None  # msgspec then uses `typing`, which has the same from 3.11 on
    for name in stand_ins.keys() & sys.modules.keys():
        del stand_ins[name]
    sys.modules.update(stand_ins)
    try:
        import asyncio

        import msgspec  # noqa: F401 # pyright: ignore[reportUnusedImport]
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
    setattr(asyncio, "sslproto", stand_ins["asyncio.sslproto"])  # noqa: B010 # an import would set it


def _stand_in(name: str) -> ModuleType:
    module = ModuleType(name)

    def load(attribute: str) -> Any:
        if sys.modules.get(name) is module:
            del sys.modules[name]
        return getattr(import_module(name), attribute)

    setattr(module, "__getattr__", load)  # noqa: B010
    return module
