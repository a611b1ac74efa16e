"""A client that runs `accord agent` in a temporary folder. The scripted model needs no key and no network.

python examples/coding.py
python examples/coding.py "write a.txt: hello then read a.txt"
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import accord

PROMPT = "write notes.txt: pears then replace pears with apples in notes.txt then run cat notes.txt"


def on_permission(request: accord.PermissionRequest) -> str | None:
    """Print the request and allow it once. A real client asks its user."""
    chosen = request.option("allow_once")
    print(f"  ? {request.call.label} -> {chosen.name if chosen else 'no'}")
    return chosen.option_id if chosen else None


async def main(prompt: str) -> None:
    command = [sys.executable, "-m", "accord.cli", "agent", "--model", "rehearsal"]
    handlers = accord.ClientHandlers(permissions=on_permission, workspace=accord.local_workspace)
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        async with accord.connect(*command, env={"ACCORD_HOME": home}, handlers=handlers) as agent:
            session = await agent.new_session(folder)
            print(f"you: {prompt}")
            async for event in session.prompt(prompt):
                match event:
                    case accord.AgentMessageChunk():
                        print(event.text, end="")
                    case accord.ToolCallChanged(call=call) if call.status in ("completed", "failed"):
                        print(f"  tool: {call.label} [{call.status}]")
                    case accord.TurnEnded(raw_reason=reason):
                        print(f"\n  -- the turn ended: {reason}")
                    case _:
                        pass
        for file in sorted(Path(folder).iterdir()):
            print(f"{file.name} is now {file.read_text()!r}")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or PROMPT))
