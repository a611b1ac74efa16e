"""The public names, what importing them loads, and the errors that users raise."""

import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import accord
import accord.testing
from accord.errors import InternalError, NotFound, RpcError, UsageError

PUBLIC_NAMES = [
    "AccordError",
    "Agent",
    "AgentEnded",
    "AgentFeatures",
    "AgentMessageChunk",
    "AgentOptions",
    "AgentSession",
    "AgentThoughtChunk",
    "AuthRequired",
    "BadAnswer",
    "ClientEvent",
    "ClientHandlers",
    "ClientOptions",
    "ClientRequest",
    "ClientSession",
    "ConnectionClosed",
    "Crashed",
    "HandshakeFailed",
    "Killed",
    "LocalWorkspace",
    "MessageChanged",
    "NeverStarted",
    "NotOffered",
    "Notice",
    "PermissionAnswer",
    "PermissionAnswered",
    "PermissionAsked",
    "PermissionRequest",
    "PlanChanged",
    "Policy",
    "RemoteAgent",
    "RequestTimeout",
    "RestartPolicy",
    "RpcError",
    "Rule",
    "Rules",
    "SessionState",
    "TextContent",
    "TimeLimits",
    "ToolCallChanged",
    "ToolCallScope",
    "Turn",
    "TurnEnded",
    "TurnResult",
    "TurnSilent",
    "TurnStarted",
    "UsageError",
    "UsageUpdate",
    "UserMessageChunk",
    "Workspace",
    "__version__",
    "allow_all",
    "allow_reads",
    "by_policy",
    "connect",
    "connect_transport",
    "local_workspace",
    "reject_all",
    "run_in_terminal",
    "unknown_session",
]
"""Changing this list changes the public API: update the changelog, and the documentation."""


def test_the_public_names_of_accord_are_pinned() -> None:
    assert accord.__all__ == PUBLIC_NAMES
    assert len(accord.__all__) <= 60


@pytest.mark.parametrize("module", [accord, accord.testing], ids=lambda module: module.__name__)
def test_every_public_name_can_be_imported(module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined]
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    "package",
    [
        "accord",
        "accord.agent",
        "accord.client",
        "accord.schema",
        "accord.session",
        "accord.store",
        "accord.testing",
    ],
)
def test_no_public_name_is_also_a_module(package: str) -> None:
    """A type checker takes `accord.client.connect` for a module if one has that name.

    Importing a module also replaces a name of its package that is loaded on first use.
    """
    loaded = importlib.import_module(package)
    modules = {module.name for module in pkgutil.iter_modules(loaded.__path__)}
    public = vars(loaded).get("__all__")
    if public is None:
        public = [name for name in dir(loaded) if not isinstance(getattr(loaded, name), ModuleType)]
    assert modules & set(public) == set()


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_accord_imports_none_of_its_packages() -> None:
    loaded = {name for name in loaded_after("import accord") if name.startswith("accord.")}
    assert loaded == {"accord.lazy_names"}


def test_an_agent_loads_neither_the_client_nor_heavy_libraries() -> None:
    loaded = loaded_after("import accord\naccord.Agent('x', version='1')")
    packages = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("accord.")}
    assert not packages & {"accord.client", "accord.testing", "accord.cli"}
    assert not loaded & {
        "pydantic",
        "pydantic_ai",
        "mcp",
        "httpx",
        "httpx2",
        "starlette",
        "textual",
        "platformdirs",
    }


def test_an_rpc_error_has_a_text_and_optionally_a_code_and_data() -> None:
    error = RpcError("out of paper", {"tray": 2}, code=7)
    assert (error.code, error.message, error.data) == (7, "out of paper", {"tray": 2})
    assert (InternalError().code, InternalError().message) == (-32603, "Internal error")
    assert isinstance(RpcError.of(-32002, "no such file"), NotFound)


@pytest.mark.parametrize(
    ("message", "data", "text"),
    [
        (None, None, "Internal error [-32603]"),
        (None, "why", "Internal error (why) [-32603]"),
        (None, {"details": "it exited"}, "Internal error (it exited) [-32603]"),
        (None, {"reason": "gone", "n": 3, "x": None}, "Internal error (reason: gone, n: 3) [-32603]"),
        (None, {"path": ["a", {"b": True}]}, 'Internal error (path: ["a", {"b": true}]) [-32603]'),
        (None, {"error": {"message": "no credit", "code": 3}}, "Internal error (no credit) [-32603]"),
        (None, ["a", 1], 'Internal error (["a", 1]) [-32603]'),
        ("no network", {"reason": "model_error", "kind": "network"}, "no network [-32603]"),
        ("it broke: oh", {"message": "oh"}, "it broke: oh [-32603]"),
    ],
)
def test_the_text_of_an_rpc_error_has_its_data_as_text(message: str | None, data: Any, text: str) -> None:
    assert str(InternalError(message, data)) == text


@pytest.mark.rule("framing.agent-error-members", "framing.client-error-members")
def test_an_rpc_error_with_a_code_as_text_is_a_usage_error() -> None:
    with pytest.raises(
        UsageError, match=r"the first argument of an RpcError is its text: RpcError\('why', code=-32000\)"
    ):
        RpcError(-32000, "out of paper")  # pyright: ignore[reportArgumentType]
