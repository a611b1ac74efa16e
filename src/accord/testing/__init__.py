"""A test kit for agents and clients.

Scripted agents, clients and model providers, hostile agents, raw messages with assertions, and a fake clock.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from accord.lazy_names import lazy_names

if TYPE_CHECKING:
    from accord.testing.fake_clock import FakeClock, settle
    from accord.testing.fixture_types import AccordClientFixture, AccordModelServerFixture, AccordWireFixture
    from accord.testing.hostile import hostile_command
    from accord.testing.model_server import ModelServer
    from accord.testing.raw_peer import RawPeer, RecordingTransport, WireFault, WireLog, raw_pair
    from accord.testing.scripted_agent import (
        AgentScript,
        ScriptedAgent,
        ScriptedTurn,
        Step,
        ask,
        die,
        fail,
        parse_step,
        plan,
        read_file,
        say,
        send,
        stop,
        terminal,
        think,
        tool,
        update,
        wait_for_cancel,
        write_file,
    )
    from accord.testing.scripted_clients import RecordedTurn, ScriptedClient, scripted_client


__all__ = [
    "AccordClientFixture", "AccordModelServerFixture", "AccordWireFixture", "AgentScript", "FakeClock",
    "ModelServer", "RawPeer", "RecordedTurn", "RecordingTransport", "ScriptedAgent", "ScriptedClient",
    "ScriptedTurn", "Step", "WireFault", "WireLog", "ask", "die", "fail", "hostile_command", "parse_step",
    "plan", "raw_pair", "read_file", "say", "scripted_client", "send", "settle", "stop", "terminal",
    "think", "tool", "update", "wait_for_cancel", "write_file",
]  # fmt: skip

__getattr__: Callable[[str], object] = lazy_names(
    __name__,
    {
        "accord.testing.fake_clock": "FakeClock settle",
        "accord.testing.fixture_types": "AccordClientFixture AccordModelServerFixture AccordWireFixture",
        "accord.testing.hostile": "hostile_command",
        "accord.testing.model_server": "ModelServer",
        "accord.testing.raw_peer": "RecordingTransport WireLog RawPeer WireFault raw_pair",
        "accord.testing.scripted_agent": (
            "AgentScript ScriptedAgent ScriptedTurn Step ask die fail parse_step plan read_file say send "
            "stop terminal think tool update wait_for_cancel write_file"
        ),
        "accord.testing.scripted_clients": "RecordedTurn ScriptedClient scripted_client",
    },
)
