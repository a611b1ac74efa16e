"""The first answer of a provider costs its library the building of many validators. Here one is read in advance.

Everything happens in memory: a request that never leaves, and an answer of one word.
"""

import asyncio
import json
from typing import Final

import httpx2

from accord.clock import SYSTEM_CLOCK
from accord.coder.messages import user
from accord.coder.models.config import Kind, ModelFacts
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.line import Line
from accord.coder.models.live.asking import Ask
from accord.coder.models.live.connecting import connect, ssl_context
from accord.coder.models.model import ModelError, ModelRequest, ToolSpec

_ANSWERS: Final[dict[Kind, str]] = {
    "openai-chat": r"""
{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}
{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[\
{"index":0,"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]},"finish_reason":"stop"}]}
""",
    "openai-responses": r"""
{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","created_at":1,"model":"m",\
"output":[],"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"status":"in_progress"}}
{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"f","type":"function_call",\
"call_id":"c","name":"t","arguments":"{}"}}
{"type":"response.output_text.delta","sequence_number":2,"item_id":"i","output_index":1,"content_index":0,\
"delta":"a","logprobs":[]}
{"type":"response.completed","sequence_number":3,"response":{"id":"r","object":"response","created_at":1,"model":"m",\
"output":[],"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"status":"completed"}}
""",
    "anthropic": r"""
{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],\
"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"t","input":{}}}
{"type":"content_block_stop","index":1}
{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}
{"type":"message_stop"}
""",
    "google": r"""
{"candidates":[{"content":{"role":"model","parts":[{"text":"a"},{"functionCall":{"name":"t","args":{}}}]},\
"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}
""",
}
_SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def warm(kind: Kind) -> None:
    """Let the libraries read one answer. In a thread without an event loop of its own; never raises."""
    try:
        asyncio.run(rehearse(kind))
    except Exception:  # noqa: BLE001  (a convenience: the first request will tell what is wrong)
        return


async def rehearse(kind: Kind) -> None:
    """The request and its answer. Raises what goes wrong."""
    ssl_context()
    items = _ANSWERS[kind].replace("\\\n", "").strip().split("\n")
    names = [json.loads(item).get("type") for item in items]
    heads = [f"event: {name}\n" if name else "" for name in names]
    text = "".join(f"{head}data: {item}\n\n" for head, item in zip(heads, items, strict=True))
    answer = httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})
    line = Line(SYSTEM_CLOCK, 60, lambda: ModelError("other", "silent"))
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda request: answer), timeout=60) as http:
        endpoint = Endpoint("warm-up", kind, "http://127.0.0.1", None, False)
        tools = [ToolSpec("t", "t", _SCHEMA)]
        ask = Ask(endpoint, "m", ModelFacts(), connect(endpoint, "m", http))
        await ask.stream(ModelRequest("s", [user("u")], tools), False, line)
