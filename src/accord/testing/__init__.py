"""For everyone who tests an agent or a client: scripted and hostile peers, the wire by hand, wire assertions, a fake clock."""

from typing import TYPE_CHECKING

from accord.lazy_names import lazy_names

if TYPE_CHECKING:
    from accord.testing.fake_clock import FakeClock, settle
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
    from accord.testing.scripted_client import ScriptedClient, SeenTurn, scripted_client


__all__ = [
    "AgentScript",
    "FakeClock",
    "ModelServer",
    "RawPeer",
    "RecordingTransport",
    "ScriptedAgent",
    "ScriptedClient",
    "ScriptedTurn",
    "SeenTurn",
    "Step",
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

__getattr__ = lazy_names(
    __name__,
    {
        "accord.testing.fake_clock": "FakeClock settle",
        "accord.testing.hostile": "hostile_command",
        "accord.testing.model_server": "ModelServer",
        "accord.testing.raw_peer": "RecordingTransport WireLog RawPeer WireFault raw_pair",
        "accord.testing.scripted_agent": (
            "AgentScript ScriptedAgent ScriptedTurn Step ask die fail plan read_file say send step_of "
            "stop terminal think tool update wait_for_cancel write_file"
        ),
        "accord.testing.scripted_client": "ScriptedClient SeenTurn scripted_client",
    },
)
