"""The event loops that tests with real pipes and processes run on."""

import asyncio
import importlib
import importlib.util
from collections.abc import Callable

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    name: importlib.import_module(name).new_event_loop
    for name in ("asyncio", "uvloop")
    if importlib.util.find_spec(name)
}
