"""Compaction with real provider code, in all four wire formats."""

import asyncio
import json

import pytest
from tests.coder.asking import KINDS, READ, ask, message_in, remote_model
from tests.coder.context.scripted import SUMMARY, turns

from accord.coder.context.compaction import Material, compact
from accord.coder.models.config import Kind
from accord.coder.models.model import ModelRequest
from accord.testing.models import Answer, Gate, ModelServer

pytestmark = pytest.mark.parametrize("kind", KINDS)


async def test_the_provider_is_asked_without_tools_and_takes_the_compacted_history(kind: Kind) -> None:
    script = [Answer(SUMMARY), Answer("Going on.")]
    async with ModelServer(script) as server, remote_model(server, kind) as model:
        compacted = await compact(Material(messages=turns(12), size=40_000, thorough=True), model)
        events = await ask(model, ModelRequest("Be brief.", compacted.messages, [READ]))
        first, second = (json.dumps(asked.body) for asked in server.requests)
    assert compacted.how == "summary"
    assert compacted.summary == SUMMARY
    assert compacted.usage is not None
    assert "Reads a file." not in first
    assert "Reads a file." in second
    assert message_in(events).parts


async def test_a_cancelled_compaction_hangs_up_on_the_provider(kind: Kind) -> None:
    gate = Gate()
    async with ModelServer([Answer("## Task", gate, "never")]) as server, remote_model(server, kind) as model:
        running = asyncio.create_task(
            compact(Material(messages=turns(12), size=40_000, thorough=True), model)
        )
        await gate.reached()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await server.requests[0].ended() == "abandoned"
