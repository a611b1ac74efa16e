"""Pictures that are too large or that a provider refuses, over the wire, in all four provider formats."""

import base64
import io
import json
from pathlib import Path

import pytest
from PIL import Image
from tests.coder.agent.harness import AgentHarness, provider_client
from tests.coder.models.harness import KINDS

from accord.coder.user_config import Kind
from accord.testing.model_script import ModelAnswer, ModelFault, ModelToolCall
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


def _sent_pictures(value: object) -> list[str]:
    """The pictures in the body of a request, in base64."""
    if isinstance(value, dict):
        return [found for member in value.values() for found in _sent_pictures(member)]
    if isinstance(value, list):
        return [found for item in value for found in _sent_pictures(item)]
    text = value.rpartition(",")[2] if isinstance(value, str) else ""
    return [text] if text.startswith(("iVBOR", "/9j/")) else []


@pytest.mark.parametrize("kind", KINDS)
async def test_large_pictures_are_scaled_before_they_are_sent(harness: AgentHarness, kind: Kind) -> None:
    file = io.BytesIO()
    Image.new("RGB", (6000, 300), "red").save(file, "PNG")
    Path(harness.cwd, "wide.png").write_bytes(file.getvalue())
    image = {"type": "image", "data": base64.b64encode(file.getvalue()).decode(), "mimeType": "image/png"}
    script = [ModelAnswer(ModelToolCall("read_file", {"path": "wide.png"})), ModelAnswer("Red.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, [{"type": "text", "text": "What is it?"}, image])
        pictures = _sent_pictures(server.requests[-1].body)
    sizes = [Image.open(io.BytesIO(base64.b64decode(picture))).size for picture in pictures]
    assert sizes == [(2000, 100), (2000, 100)]
    assert "scaled from 6000 x 300 to 2000 x 100 pixels" in json.dumps(server.requests[-1].body)
