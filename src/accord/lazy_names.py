"""Names of a package that are imported from its modules on first use."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

LazyGetattr: TypeAlias = Callable[[str], Any]
"""The `__getattr__` of a package."""


def lazy_names(package: str, modules: Mapping[str, str]) -> LazyGetattr:
    """Return the `__getattr__` of a package. `modules` maps each module to its names, separated by spaces."""
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
