"""Repeated calls over the wire, in all four provider formats: reads go on, others are stopped."""

import json

import pytest
from tests.coder.agent.harness import AgentHarness, provider_client
from tests.coder.models.harness import KINDS

from accord.coder.user_config import Kind
from accord.testing.model_script import ModelAnswer, ModelToolCall
from accord.testing.model_server import ModelServer


@pytest.mark.parametrize("kind", KINDS)
async def test_repeated_reads_are_no_loop_but_other_calls_are(harness: AgentHarness, kind: Kind) -> None:
    look = [ModelAnswer(ModelToolCall("bash", {"command": "ls -a && cat none"}))] * 4
    search = [ModelAnswer(ModelToolCall("grep", {"pattern": "x"}))] * 4
    delete = [ModelAnswer(ModelToolCall("delete_file", {"path": "none"}))] * 7
    async with (
        ModelServer([*look, *search, *delete]) as server,
        provider_client(harness, server, kind, 'mode = "full-access"\n') as client,
    ):
        _, result = await client.turn(await client.new_session(harness.cwd), "go")
        sent = json.dumps(server.requests[-1].body)
    assert result["stopReason"] == "max_turn_requests"
    assert len(server.requests) == 4 + 4 + 6
    assert sent.count("Not run: the same call") == 2
