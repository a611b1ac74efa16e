"""Compaction through the provider code, in all four wire formats."""

import asyncio
import json

import pytest
from tests.coder.context.scripted_model import SUMMARY, turns
from tests.coder.models.harness import KINDS, READ, ask, final_message, remote_model

from accord.coder.context.compaction import CompactionInput, compact
from accord.coder.models.model import ModelRequest
from accord.coder.user_config import Kind
from accord.testing.model_script import ModelAnswer, StreamPause
from accord.testing.model_server import ModelServer

pytestmark = pytest.mark.parametrize("kind", KINDS)


async def test_summary_request_has_no_tools_and_compacted_history_is_accepted(kind: Kind) -> None:
    script = [ModelAnswer(SUMMARY), ModelAnswer("Going on.")]
    async with ModelServer(script) as server, remote_model(server, kind) as model:
        compacted = await compact(CompactionInput(messages=turns(12), size=40_000, force_summary=True), model)
        events = await ask(model, ModelRequest("Be brief.", compacted.messages, [READ]))
        first, second = (json.dumps(asked.body) for asked in server.requests)
    assert compacted.method == "summary"
    assert compacted.summary == SUMMARY
    assert compacted.usage is not None
    assert "Reads a file." not in first
    assert "Reads a file." in second
    assert final_message(events).parts


async def test_cancelled_compaction_closes_the_provider_connection(kind: Kind) -> None:
    pause = StreamPause()
    async with (
        ModelServer([ModelAnswer("## Task", pause, "never")]) as server,
        remote_model(server, kind) as model,
    ):
        task = asyncio.create_task(
            compact(CompactionInput(messages=turns(12), size=40_000, force_summary=True), model)
        )
        await pause.reached()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await server.requests[0].ended() == "abandoned"
