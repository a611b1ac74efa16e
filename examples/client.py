"""A small client: it starts the example agent, or the given command, sends a prompt and prints the events.

python examples/client.py
python examples/client.py claude-agent-acp
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import accord
from accord.schema import PlanItems


def on_permission(request: accord.PermissionRequest) -> str | None:
    """Print the request and allow it once. A real client asks its user."""
    chosen = request.option("allow_once")
    print(f"  ? {request.call.label}: {' / '.join(option.name for option in request.options)}", end="")
    print(f"  -> {chosen.name if chosen else 'no'}")
    return chosen.option_id if chosen else None


def show(event: accord.ClientEvent) -> None:
    match event:
        case accord.AgentThoughtChunk():
            print(f"  (thinks: {event.text})")
        case accord.AgentMessageChunk():
            print(f"  says: {event.text!r}")
        case accord.PlanChanged(plan=PlanItems(entries=entries)):
            print(f"  plan: {', '.join(f'{entry.content} [{entry.status}]' for entry in entries)}")
        case accord.ToolCallChanged(call=call):
            print(f"  tool: {call.label} [{call.status}]")
        case accord.TurnEnded(raw_reason=reason):
            print(f"  -- the turn ended: {reason}")
        case _:
            pass


async def main(command: list[str]) -> None:
    handlers = accord.ClientHandlers(permissions=on_permission, workspace=accord.local_workspace)
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder, "notes.txt")
        notes.write_text("pears\napples\n")
        async with accord.connect(*command, handlers=handlers) as agent:
            print(f"connected to {agent.info.name if agent.info else command[0]}")
            session = await agent.new_session(folder)
            print("you: Please tidy my notes")
            async for event in session.prompt("Please tidy my notes"):
                show(event)
        print(f"notes.txt is now {notes.read_text()!r}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or [sys.executable, str(Path(__file__).with_name("agent.py"))]))
