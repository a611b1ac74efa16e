"""Spans and metrics of a turn, its model requests and tools, and the context of a trace."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.coder.agent.harness import (
    SANDBOX_OFF,
    AgentHarness,
    ScriptedModel,
    choose,
    configure,
    provider_client,
    use,
)
from tests.gateway.gateway_harness import gateway_harness, open_session

from accord import telemetry
from accord.client import connect_transport
from accord.coder.model_history import ThoughtPart, text_of
from accord.coder.models import ModelError
from accord.gateway.access.audit_log import AuditLog
from accord.testing import ScriptedAgent, say
from accord.testing.model_server import ModelAnswer, ModelServer
from accord.testing.raw_peer import RecordingTransport

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="it needs the extra otel")

WAITS = "[mcp]\nstart_seconds = 50\n"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@dataclass
class Recorded:
    """What was recorded in memory."""

    exporter: Any
    reader: Any

    @property
    def spans(self) -> dict[str, Any]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    @property
    def metrics(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        return {one.name: list(one.data.data_points) for scope in scopes for one in scope.metrics}


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, reader, tracers = InMemorySpanExporter(), InMemoryMetricReader(), sdk.TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.use(telemetry.Telemetry(tracers, MeterProvider([reader])))
    yield Recorded(exporter, reader)
    telemetry.use(None)


def prompt(text: str, meta: Any = None) -> dict[str, Any]:
    return {"prompt": [{"type": "text", "text": text}], **({"_meta": meta} if meta else {})}


async def test_a_turn_has_spans_and_metrics_in_the_trace_of_its_client(
    harness: AgentHarness, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(harness, SANDBOX_OFF)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=geheim")
    model = ScriptedModel(
        [use("bash", command="echo $TRACEPARENT $OTEL_EXPORTER_OTLP_HEADERS > context; exit 3")],
        ["secret answer"],
    )
    async with harness.client(model=model, mode="full-access") as client:
        session = await client.new_session(harness.cwd)
        meta = {"traceparent": TRACEPARENT, "other": 1}
        await client.call("session/prompt", {"sessionId": session, **prompt("secret prompt", meta)})
    spans = recorded.spans
    turn, chat, tool = (
        spans[f"{name}"] for name in ("invoke_agent accord", "chat scripted", "execute_tool bash")
    )
    assert f"{turn.context.trace_id:032x}" == TRACE
    assert f"{turn.parent.span_id:016x}" == "b7ad6b7169203331"
    assert {chat.parent.span_id, tool.parent.span_id} == {turn.context.span_id}
    assert (turn.kind.name, chat.kind.name, tool.kind.name) == ("INTERNAL", "CLIENT", "INTERNAL")
    members = dict(turn.attributes)
    assert members["gen_ai.operation.name"] == "invoke_agent"
    assert members["gen_ai.conversation.id"] == session
    assert members["gen_ai.usage.input_tokens"] == 200
    assert members["gen_ai.response.finish_reasons"] == ("end_turn",)
    assert dict(chat.attributes)["gen_ai.request.model"] == "scripted"
    assert dict(chat.attributes)["gen_ai.response.time_to_first_chunk"] > 0
    assert dict(tool.attributes)["gen_ai.tool.name"] == "bash"
    assert dict(tool.attributes)["error.type"] == "tool_error"
    child = (harness.project / "context").read_text().strip()
    assert child.split("-")[1] == TRACE
    assert "geheim" not in child
    recorded_text = repr([dict(span.attributes) for span in recorded.exporter.get_finished_spans()])
    assert "secret" not in recorded_text
    metrics = recorded.metrics
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum for point in metrics["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": 200, "output": 20}
    assert metrics["gen_ai.invoke_agent.duration"][0].count == 1
    assert metrics["gen_ai.execute_tool.duration"][0].attributes["error.type"] == "tool_error"
    assert metrics["gen_ai.client.operation.duration"][0].count == 2
    assert metrics["gen_ai.client.operation.time_to_first_chunk"][0].count == 1, "one answer had text"


async def test_a_chat_span_has_the_answer_of_the_provider(harness: AgentHarness, recorded: Recorded) -> None:
    async with (
        ModelServer([ModelAnswer("hi")]) as server,
        provider_client(harness, server, "anthropic") as client,
    ):
        await client.turn(await client.new_session(harness.cwd), "go")
    [chat] = [span for name, span in recorded.spans.items() if name.startswith("chat ")]
    members = dict(chat.attributes)
    assert members["gen_ai.provider.name"] == "scripted"
    assert members["gen_ai.response.model"] == members["gen_ai.request.model"]
    assert members["gen_ai.response.id"] == "msg_1"


async def test_content_is_recorded_only_by_its_switch(
    harness: AgentHarness, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = telemetry.telemetry()
    assert active is not None
    monkeypatch.setattr(active, "captures_content", True)
    configure(harness, SANDBOX_OFF)
    call = use("bash", command="echo result-of-tool")
    model = ScriptedModel([ThoughtPart("hm"), call], ["the answer"])
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "the prompt")
    tool = dict(recorded.spans["execute_tool bash"].attributes)
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"command": "echo result-of-tool"}
    assert "result-of-tool" in tool["gen_ai.tool.call.result"]
    chat = dict(recorded.spans["chat scripted"].attributes)
    prompt, answer, result = json.loads(chat["gen_ai.input.messages"])
    assert prompt["parts"][0] == {"type": "text", "content": "the prompt"}
    assert answer == {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "hm"},
            {"type": "tool_call", "id": call.id, "name": "bash", "arguments": call.arguments},
        ],
    }
    assert result["role"] == "tool"
    assert result["parts"][0]["response"].startswith("result-of-tool")
    parts = [{"type": "text", "content": "the answer"}]
    assert json.loads(chat["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": parts, "finish_reason": "stop"}
    ]
    assert "bash" in [tool["name"] for tool in json.loads(chat["gen_ai.tool.definitions"])]
    [instructions] = json.loads(chat["gen_ai.system_instructions"])
    assert instructions["type"] == "text"


async def test_long_content_is_valid_json_and_bounded(
    harness: AgentHarness, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry.telemetry(), "captures_content", True)
    configure(harness, SANDBOX_OFF)
    looks = [["word " * 1000, use("list_files", path=".")] for _ in range(60)]
    async with harness.client(*looks, ["the answer"]) as client:
        await client.turn(await client.new_session(harness.cwd), "the prompt")
    text = recorded.spans["chat scripted"].attributes["gen_ai.input.messages"]
    assert len(text) <= 32_000
    assert json.loads(text)[-1]["role"] == "tool"


@pytest.mark.parametrize("traceparent", ["garbage", "00-0-0-00", 7, None, "x" * 100_000, ["a"]])
async def test_an_invalid_context_counts_as_none(
    traceparent: Any, harness: AgentHarness, recorded: Recorded
) -> None:
    async with harness.client(["done"]) as client:
        session = await client.new_session(harness.cwd)
        params = {"sessionId": session, **prompt("hi", {"traceparent": traceparent, "tracestate": 3})}
        assert (await client.call("session/prompt", params))["stopReason"] == "end_turn"
    assert recorded.spans["invoke_agent accord"].parent is None


async def test_a_failed_turn_has_its_error(harness: AgentHarness, recorded: Recorded) -> None:
    async with harness.client(ModelError("auth", "no key", final=True)) as client:
        session = await client.new_session(harness.cwd)
        await client.error("session/prompt", {"sessionId": session, **prompt("hi")})
    assert dict(recorded.spans["chat scripted"].attributes)["error.type"] == "ModelError"
    turn = dict(recorded.spans["invoke_agent accord"].attributes)
    assert (turn["error.type"], turn["gen_ai.conversation.id"]) == ("AuthRequired", session)


async def test_the_client_sends_its_context(recorded: Recorded) -> None:
    transport = RecordingTransport(ScriptedAgent([[say("Hello")]]).transport(), side="client")
    async with connect_transport(transport) as agent:
        with telemetry.operation("invoke_agent", "of the program"):  # its own span
            session = await agent.new_session(os.getcwd())
            await session.ask("hi")
    (created,) = transport.log.calls("session/new")
    (params,) = transport.log.calls("session/prompt")
    outer = recorded.spans.pop("invoke_agent of the program")
    span = next(one for one in recorded.exporter.get_finished_spans() if one is not outer)
    assert span.parent.span_id == outer.context.span_id
    assert created["_meta"]["traceparent"].split("-")[2] == f"{outer.context.span_id:016x}"
    assert span.kind.name == "CLIENT"
    assert params["_meta"]["traceparent"].split("-")[1:3] == [
        f"{span.context.trace_id:032x}",
        f"{span.context.span_id:016x}",
    ]


async def test_requests_of_the_agent_carry_the_context(harness: AgentHarness, recorded: Recorded) -> None:
    configure(harness, SANDBOX_OFF)
    model = ScriptedModel([use("bash", command="touch made")])
    async with harness.client(model=model) as client:
        id = client.prompt(await client.new_session(harness.cwd), "go")
        question = await client.asked("session/request_permission")
        choose(client, question, "allow_once")
        await client.turn_of(id)
    tool = recorded.spans["execute_tool bash"].context
    sent = question["params"]["_meta"]["traceparent"].split("-")
    assert sent[1:3] == [f"{tool.trace_id:032x}", f"{tool.span_id:016x}"]


MCP_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params") or {}
    result = {
        "initialize": {
            "protocolVersion": params.get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "context", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": json.dumps(params.get("_meta"))}]},
    }.get(message.get("method"))
    if "id" in message:
        body = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
"""


async def test_mcp_servers_get_the_context(harness: AgentHarness, recorded: Recorded) -> None:
    server = {"name": "s", "command": sys.executable, "args": ["-S", "-c", MCP_SERVER], "env": []}
    model = ScriptedModel([use("s__context")])
    configure(harness, SANDBOX_OFF + WAITS)
    async with harness.client(model=model, mode="full-access") as client:
        session = await client.new_session(harness.cwd, mcpServers=[server])
        params = {"sessionId": session, **prompt("go", {"traceparent": TRACEPARENT})}
        await client.call("session/prompt", params)
    tool = recorded.spans["execute_tool s__context"]
    told = json.loads(text_of(model.requests[-1].messages[-1]))
    assert told["traceparent"].split("-")[1] == TRACE
    assert dict(tool.attributes)["gen_ai.tool.type"] == "extension"


async def test_mcp_processes_and_hooks_have_the_context_in_their_environment(
    harness: AgentHarness, recorded: Recorded
) -> None:
    hook = "[[hooks.UserPromptSubmit]]\nhooks = [{ command = 'echo $TRACEPARENT' }]\n"
    configure(harness, SANDBOX_OFF + WAITS + hook)
    program = MCP_SERVER.replace("json, sys", "json, os, sys").replace(
        'params.get("_meta")', 'os.environ["TRACEPARENT"]'
    )
    server = {"name": "s", "command": sys.executable, "args": ["-S", "-c", program], "env": []}
    model = ScriptedModel([use("s__context")])
    async with harness.client(model=model, mode="full-access") as client:
        session = await client.new_session(
            harness.cwd, mcpServers=[server], _meta={"traceparent": TRACEPARENT}
        )
        await client.call("session/prompt", {"sessionId": session, **prompt("go")})
    assert json.loads(text_of(model.requests[-1].messages[-1])) == TRACEPARENT
    turn = recorded.spans["invoke_agent accord"]
    assert f"[hook] 00-{turn.context.trace_id:032x}-{turn.context.span_id:016x}-" in model.prompts[0]


async def test_each_subagent_has_a_span_with_its_own_usage(harness: AgentHarness, recorded: Recorded) -> None:
    model = ScriptedModel([use("agent", prompt="look")], ["found"], ["done"])
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    task, tool = recorded.spans["invoke_agent sub-agent"], recorded.spans["execute_tool agent"]
    assert task.parent.span_id == tool.context.span_id
    inner = [span for span in recorded.exporter.get_finished_spans() if span.name == "chat scripted"]
    assert [span.parent.span_id for span in inner].count(task.context.span_id) == 1
    members = dict(task.attributes)
    assert members["gen_ai.usage.input_tokens"] == 100
    assert members["gen_ai.response.finish_reasons"] == ("end_turn",)
    assert dict(recorded.spans["invoke_agent accord"].attributes)["gen_ai.usage.input_tokens"] == 300


async def test_a_failed_subagent_has_its_error(harness: AgentHarness, recorded: Recorded) -> None:
    failure = ModelError("other", "broken", final=True)
    model = ScriptedModel([use("agent", prompt="look")], failure, ["done"])
    async with harness.client(model=model, mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert dict(recorded.spans["invoke_agent sub-agent"].attributes)["error.type"] == "ModelError"


async def test_the_gateway_has_a_span_and_passes_the_context_on(tmp_path: Path, recorded: Recorded) -> None:
    async with gateway_harness(audit=AuditLog(tmp_path / "audit.jsonl")) as gateway:
        client = await gateway.client()
        session = await open_session(gateway, client, tmp_path)
        for answer in ({"stopReason": "end_turn"}, None):
            turn = client.ask(
                "session/prompt", {"sessionId": session, **prompt("go", {"traceparent": TRACEPARENT})}
            )
            asked = await gateway.agent.until_method("session/prompt")
            assert asked["params"]["_meta"] == {"traceparent": TRACEPARENT}
            if answer is None:
                gateway.agent.refuse(asked, -32603)
            else:
                gateway.agent.reply(asked, answer)
            await client.answer_to(turn)
    good, failed = recorded.exporter.get_finished_spans()
    assert (good.name, good.kind.name) == ("invoke_agent hand", "CLIENT")
    assert f"{good.context.trace_id:032x}" == TRACE
    assert dict(good.attributes)["gen_ai.conversation.id"] == session
    assert "error.type" in dict(failed.attributes)


@pytest.mark.parametrize(
    ("environment", "enabled"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": ""}, False),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_switch(environment: dict[str, str], enabled: bool) -> None:
    assert telemetry.is_enabled(environment) is enabled


CLIENT = """
import json, sys
from accord import telemetry
from accord.cli import main
code = main(["run", "--model", "rehearsal", "list ."])
loaded = [name for name in sys.modules if name.startswith("opentelemetry")]
print(json.dumps([code, bool(loaded)]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ""),
        ({"OTEL_TRACES_EXPORTER": "console"}, '"name": "invoke_agent accord"'),
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, "telemetry is off: OTEL_TRACES_EXPORTER is 'jaeger'"),
        # Nothing listens there: the command ends all the same.
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, ""),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "only http/protobuf"),
    ],
)  # fmt: skip
def test_commands_export_by_the_environment(
    variables: dict[str, str], expected: str, harness: AgentHarness
) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", CLIENT],
        env={**inherited, **variables},
        cwd=harness.project,
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [line for line in done.stderr.split("\n") if line.startswith("[")]
    code, loaded = json.loads(line)
    assert code == 0
    assert loaded == bool(variables)
    assert expected in done.stderr
    assert "opentelemetry" not in done.stdout
