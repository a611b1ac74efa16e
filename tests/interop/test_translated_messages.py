"""Whatever one version of the protocol can say: its translation is official in the other version."""

import json
from functools import cache
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.repetitions import repetitions
from tests.requirements import need_official_schemas
from tests.schema.schema_strategies import values

import accord.schema as v1
from accord.agent.protocol_v2 import AgentProtocolV2
from accord.client.protocol_v2 import ClientProtocolV2
from accord.schema import v2
from accord.schema.codec import encode
from accord.schema.type_shape import shape_of
from accord.wire.translation import TranslatingTransport
from accord.wire.transport import Frame, Receiver

Version = Literal[1, 2]

quick = settings(
    max_examples=repetitions(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Ends:
    """Both ends of a translation: what the peer and what the connection above got."""

    unsent = 0

    def __init__(self) -> None:
        self.peer: list[Any] = []
        self.above: list[Any] = []

    def send(self, frame: bytes) -> None:
        self.peer.append(json.loads(frame))

    def start(self, receiver: Receiver) -> None:
        pass

    def frames(self, frames: list[Frame]) -> None:
        self.above += [json.loads(frame) for frame in frames if isinstance(frame, bytes)]

    def ended(self, end: Any) -> None:
        pass


@cache
def official(version: Version, name: str) -> Draft202012Validator:
    text = (need_official_schemas(version) / "schema.unstable.json").read_text(encoding="utf-8")
    definitions = json.loads(text)["$defs"]
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})


def agent_side() -> tuple[Ends, TranslatingTransport]:
    """The translation of an agent, after `initialize` in version 2 with an agent that has everything."""
    ends, transport = _translation()
    transport.translator = AgentProtocolV2(transport, lambda: None)
    info = {"name": "client", "version": "1"}
    receive(transport, {"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": info}})
    sessions = {"list": {}, "resume": {}, "fork": {}, "close": {}}
    capabilities = {"loadSession": True, "sessionCapabilities": sessions}
    answer = {"protocolVersion": 1, "agentCapabilities": capabilities}
    transport.send(encode({"jsonrpc": "2.0", "id": 0, "result": answer}))
    ends.peer.clear()
    ends.above.clear()
    return ends, transport


def client_side() -> tuple[Ends, TranslatingTransport]:
    """The translation of a client that takes only what version 1 has."""
    ends, transport = _translation()
    transport.translator = ClientProtocolV2(transport, events=False)
    return ends, transport


def _translation() -> tuple[Ends, TranslatingTransport]:
    ends = Ends()
    transport = TranslatingTransport(ends)  # type: ignore[arg-type]  # the part of a transport that is used
    transport.start(ends)
    return ends, transport


def receive(transport: TranslatingTransport, message: dict[str, Any]) -> None:
    transport.frames([encode({"jsonrpc": "2.0", **message})])


def send(transport: TranslatingTransport, message: dict[str, Any]) -> None:
    transport.send(encode({"jsonrpc": "2.0", **message}))


def faults(version: Version, name: str, value: Any) -> list[str]:
    return [str(error) for error in official(version, name).iter_errors(value)]


def vendor_free(updates: list[Any]) -> list[Any]:
    """Without the updates of vendors, which pass unchanged."""
    return [one for one in updates if not one["params"]["update"]["sessionUpdate"].startswith("_")]


@quick
@given(values(shape_of(v1.SessionNotification)))
async def test_updates_of_version_1_are_official_in_version_2(notification: Any) -> None:
    ends, transport = agent_side()
    send(transport, {"method": "session/update", "params": notification})
    for message in ends.peer:
        assert faults(2, "UpdateSessionNotification", message["params"]) == []


@quick
@given(st.lists(values(shape_of(v2.UpdateSessionNotification)), max_size=4))
async def test_updates_of_version_2_are_official_in_version_1(notifications: list[Any]) -> None:
    ends, transport = client_side()
    for notification in notifications:
        receive(transport, {"method": "session/update", "params": notification})
    for message in vendor_free(ends.above):
        assert faults(1, "SessionNotification", message["params"]) == []


@pytest.mark.parametrize(
    ("method", "kind", "name"),
    [
        ("session/request_permission", v1.RequestPermissionRequest, "RequestPermissionRequest"),
        ("elicitation/create", v1.CreateElicitationRequest, "CreateElicitationRequest"),
    ],
)
def test_questions_of_version_1_are_official_in_version_2(method: str, kind: Any, name: str) -> None:
    @quick
    @given(values(shape_of(kind)))
    def check(question: Any) -> None:
        ends, transport = agent_side()
        transport.deliver = lambda frame: ends.above.append(frame)  # a refusal, outside of a read
        send(transport, {"id": 1, "method": method, "params": question})
        asked = [message["params"] for message in ends.peer if message.get("method") == method]
        assert [fault for params in asked for fault in faults(2, name, params)] == []
        assert asked or ends.above

    check()


def test_questions_of_version_2_are_official_in_version_1() -> None:
    @quick
    @given(values(shape_of(v2.RequestPermissionRequestV2)))
    def check(question: Any) -> None:
        ends, transport = client_side()
        receive(transport, {"id": 1, "method": "session/request_permission", "params": question})
        for message in ends.above:
            assert faults(1, "RequestPermissionRequest", message["params"]) == []

    check()


CWD = {"cwd": "/x"}
SESSION = {"sessionId": "s", **CWD}


@pytest.mark.parametrize(
    ("method", "params", "kind", "name"),
    [
        ("session/new", CWD, v1.NewSessionResponse, "NewSessionResponse"),
        ("session/resume", SESSION, v1.ResumeSessionResponse, "ResumeSessionResponse"),
        ("session/fork", SESSION, v1.ForkSessionResponse, "ForkSessionResponse"),
        ("session/list", {}, v1.ListSessionsResponse, "ListSessionsResponse"),
    ],
)
def test_answers_of_version_1_are_official_in_version_2(
    method: str, params: dict[str, Any], kind: Any, name: str
) -> None:
    @quick
    @given(values(shape_of(kind)))
    def check(result: Any) -> None:
        ends, transport = agent_side()
        receive(transport, {"id": 1, "method": method, "params": params})
        send(transport, {"id": ends.above[-1]["id"], "result": result})
        [answer] = [message for message in ends.peer if message.get("id") == 1]
        assert faults(2, name, answer["result"]) == []

    check()


@pytest.mark.parametrize(
    ("method", "kind", "name", "result", "result_name"),
    [
        ("session/new", v1.NewSessionRequest, "NewSession", v2.NewSessionResponseV2, "NewSession"),
        ("session/load", v1.LoadSessionRequest, "ResumeSession", v2.ResumeSessionResponseV2, "LoadSession"),
        ("session/fork", v1.ForkSessionRequest, "ForkSession", v2.ForkSessionResponseV2, "ForkSession"),
        ("session/prompt", v1.PromptRequest, "Prompt", None, ""),
        (
            "session/set_config_option",
            v1.SetSessionConfigOptionRequest,
            "SetSessionConfigOption",
            v2.SetSessionConfigOptionResponseV2,
            "SetSessionConfigOption",
        ),
    ],
)
def test_requests_and_answers_of_a_client_are_official(
    method: str, kind: Any, name: str, result: Any, result_name: str
) -> None:
    @quick
    @given(values(shape_of(kind)), st.none() if result is None else values(shape_of(result)))
    def check(request: Any, answer: Any) -> None:
        ends, transport = client_side()
        transport.deliver = lambda frame: ends.above.append(json.loads(frame))  # type: ignore[arg-type]
        send(transport, {"id": 1, "method": method, "params": request})
        for message in ends.peer:
            assert faults(2, f"{name}Request", message["params"]) == []
        if answer is not None and ends.peer:
            receive(transport, {"id": 1, "result": answer})
            [answered] = [message["result"] for message in ends.above if message.get("id") == 1]
            assert faults(1, f"{result_name}Response", answered) == []

    check()
