"""Test modules with `LOOP_FACTORIES` run on each of these event loops, all others on asyncio's loop."""

import asyncio
from collections.abc import Callable, Mapping

import pytest


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    module = getattr(item, "module", None)
    return getattr(module, "LOOP_FACTORIES", {"asyncio": asyncio.new_event_loop})
