"""For everyone who tests an agent or a client: scripted and hostile peers, the wire by hand, wire assertions, a fake clock."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.testing.agents import AgentScript, ScriptedAgent, ScriptedTurn
    from accord.testing.clients import ScriptedClient, SeenTurn, scripted_client
    from accord.testing.clock import FakeClock, settle
    from accord.testing.hostile import hostile_command
    from accord.testing.models import ModelServer
    from accord.testing.steps import (
        Step,
        ask,
        die,
        fail,
        plan,
        read_file,
        say,
        send,
        step_of,
        stop,
        terminal,
        think,
        tool,
        update,
        wait_for_cancel,
        write_file,
    )
    from accord.testing.tap import Tap, WireLog
    from accord.testing.wire import RawPeer, WireFault, raw_pair

_HOMES = {
    "clock": ("FakeClock", "settle"),
    "agents": ("AgentScript", "ScriptedAgent", "ScriptedTurn"),
    "hostile": ("hostile_command",),
    "clients": ("ScriptedClient", "SeenTurn", "scripted_client"),
    "steps": (
        *("Step", "ask", "die", "fail", "plan", "read_file", "say", "send", "step_of", "stop"),
        *("terminal", "think", "tool", "update", "wait_for_cancel", "write_file"),
    ),
    "models": ("ModelServer",),
    "tap": ("Tap", "WireLog"),
    "wire": ("RawPeer", "WireFault", "raw_pair"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AgentScript",
    "FakeClock",
    "ModelServer",
    "RawPeer",
    "ScriptedAgent",
    "ScriptedClient",
    "ScriptedTurn",
    "SeenTurn",
    "Step",
    "Tap",
    "WireFault",
    "WireLog",
    "ask",
    "die",
    "fail",
    "hostile_command",
    "plan",
    "raw_pair",
    "read_file",
    "say",
    "scripted_client",
    "send",
    "settle",
    "step_of",
    "stop",
    "terminal",
    "think",
    "tool",
    "update",
    "wait_for_cancel",
    "write_file",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"accord.testing.{home}"), name)
