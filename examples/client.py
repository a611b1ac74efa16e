"""A small client: it starts the example agent (or the command you give), prompts it, and prints what happens.

python examples/client.py
python examples/client.py some-agent --acp
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import accord
from accord.schema import PlanItems


def on_permission(request: accord.PermissionRequest) -> str | None:
    """Say yes, once, and show it. A real client would ask its user."""
    chosen = request.option("allow_once")
    print(f"  ? {request.call.label}: {' / '.join(option.name for option in request.options)}", end="")
    print(f"  -> {chosen.name if chosen else 'no'}")
    return chosen.option_id if chosen else None


def show(event: accord.ClientEvent) -> None:
    match event:
        case accord.AgentThoughtChunk():
            print(f"  (thinks: {accord.text_of(event)})")
        case accord.AgentMessageChunk():
            print(f"  says: {accord.text_of(event)!r}")
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
