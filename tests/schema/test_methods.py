"""The method table, its lookups, and the page generated from it."""

from pathlib import Path

import pytest

from accord.schema import (
    AgentAuthCapabilities,
    AgentCapabilities,
    AuthStatusCapabilities,
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationUrlCapabilities,
    FileSystemCapabilities,
    MessageMcpNotification,
    MessageMcpRequest,
    PromptRequest,
    PromptResponse,
    SessionCapabilities,
    SessionListCapabilities,
)
from accord.schema.methods import METHODS, Method, notification, request, served_by
from accord.schema.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def need(method: Method | None) -> Method:
    assert method is not None
    return method


def test_the_number_of_methods() -> None:
    stable = {method.name for method in METHODS if method.stable}
    assert len({method.name for method in METHODS}) == 38
    assert len(stable) == 25
    assert sum(m.served_by == "agent" and m.kind == "request" and m.stable for m in METHODS) == 12
    assert sum(m.served_by == "client" and m.kind == "request" and m.stable for m in METHODS) == 9
    assert {m.name for m in METHODS if m.kind == "notification" and m.stable} == {
        "session/cancel",
        "session/update",
        "elicitation/complete",
        "$/cancel_request",
    }


def test_a_method_is_found_on_the_side_that_serves_it() -> None:
    prompt = need(request("agent", "session/prompt"))
    assert (prompt.params, prompt.result) == (PromptRequest, PromptResponse)
    assert request("client", "session/prompt") is None
    assert notification("agent", "session/prompt") is None
    assert request("agent", "session/cancel") is None
    assert notification("agent", "session/cancel") is not None


def test_one_name_may_be_two_methods() -> None:
    assert need(request("client", "mcp/message")).params is MessageMcpRequest
    assert need(notification("agent", "mcp/message")).params is MessageMcpNotification
    assert request("agent", "mcp/message") is None
    assert request("proxy", "proxy/successor") is not notification("proxy", "proxy/successor")


def test_both_sides_serve_cancel_request() -> None:
    assert notification("agent", "$/cancel_request") is notification("client", "$/cancel_request") is not None
    assert "$/cancel_request" in {method.name for method in served_by("agent")}
    assert "$/cancel_request" in {method.name for method in served_by("client")}


def test_only_requests_have_a_result() -> None:
    for method in METHODS:
        assert (method.result is not None) == (method.kind == "request"), method.name


def test_which_methods_belong_to_a_session() -> None:
    outside = {method.name for method in METHODS if not method.in_session}
    assert {
        "initialize",
        "session/new",
        "session/list",
        "elicitation/complete",
        "$/cancel_request",
    } <= outside
    assert need(request("client", "elicitation/create")).in_session
    assert need(notification("client", "session/update")).in_session


@pytest.mark.parametrize(
    ("name", "agent", "client", "open"),
    [
        ("session/new", None, None, True),
        ("session/load", None, None, False),
        ("session/load", AgentCapabilities(), None, False),
        ("session/load", AgentCapabilities(load_session=True), None, True),
        ("session/list", AgentCapabilities(session_capabilities=SessionCapabilities(list=None)), None, False),
        (
            "session/list",
            AgentCapabilities(session_capabilities=SessionCapabilities(list=SessionListCapabilities())),
            None,
            True,
        ),
        ("session/set_mode", AgentCapabilities(), None, True),
        (
            "auth/status",
            AgentCapabilities(auth=AgentAuthCapabilities(status=AuthStatusCapabilities())),
            None,
            True,
        ),
        (
            "fs/read_text_file",
            None,
            ClientCapabilities(fs=FileSystemCapabilities(read_text_file=False)),
            False,
        ),
        ("fs/read_text_file", None, ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True)), True),
        ("terminal/kill", None, ClientCapabilities(terminal=True), True),
        ("elicitation/create", None, ClientCapabilities(elicitation=ElicitationCapabilities()), False),
        (
            "elicitation/create",
            None,
            ClientCapabilities(elicitation=ElicitationCapabilities(url=ElicitationUrlCapabilities())),
            True,
        ),
    ],
)
def test_capabilities_decide_whether_a_method_is_offered(
    name: str, agent: AgentCapabilities | None, client: ClientCapabilities | None, open: bool
) -> None:
    method = next(method for method in METHODS if method.name == name)
    assert method.offered(agent, client) is open


def test_every_gate_is_a_known_capability_or_member() -> None:
    for method in METHODS:
        for gate in method.gates:
            if "." not in gate:
                assert gate in {"authMethods", "modes", "configOptions"}
                continue
            everything_off = method.offered(AgentCapabilities(), ClientCapabilities())
            assert everything_off is False, method.name


def test_the_methods_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_the_methods_page_lists_every_method_with_its_gates() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(METHODS)
    for method, row in zip(METHODS, rows, strict=True):
        assert f"`{method.name}`" in row
        assert all(gate in row for gate in method.gates)
        assert ("unstable" in row) is not method.stable
