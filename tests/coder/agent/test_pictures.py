"""Pictures that a provider refuses, over the wire, in all four provider formats."""

import base64
import json

import pytest
from tests.coder.agent.harness import AgentHarness, provider_client
from tests.coder.models.harness import KINDS

from accord.coder.user_config import Kind
from accord.testing.model_script import ModelAnswer, ModelFault
from accord.testing.model_server import ModelServer

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\nbroken").decode()


@pytest.mark.parametrize("kind", KINDS)
async def test_refused_picture_is_left_out_and_the_request_is_sent_again(
    harness: AgentHarness, kind: Kind
) -> None:
    script = [ModelFault(400, "Could not process image"), ModelAnswer("I see none."), ModelFault(400, "No.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        image = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
        updates, result = await client.turn(session, [{"type": "text", "text": "What is it?"}, image])
        first, second = (json.dumps(request.body) for request in server.requests)
        failed = await client.raw.answer_to(client.prompt(session, "and now?"))
    assert result["stopReason"] == "end_turn"
    assert PICTURE in first
    assert PICTURE not in second
    assert "[image: image/png, not shown to you: the provider refused the request with it" in second
    assert "Left a picture out" in json.dumps(updates)
    assert "Could not process image" in json.dumps(updates)
    assert "(400): No." in failed["error"]["message"]
    assert len(server.requests) == 3
