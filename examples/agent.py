"""A small agent: it plans, reads a file through the client, asks before it writes, and reports the result.

Start it from a client, for example with `python examples/client.py`. It speaks ACP on its stdin and stdout.
"""

import accord

agent = accord.Agent("example-agent", version="0.1.0", title="Example agent")


@agent.prompt
async def answer(turn: accord.Turn) -> None:
    await turn.think("The user wants their notes tidied. I look at them first.")
    await turn.plan([("Read notes.txt", "in_progress"), "Sort its lines"])

    notes = await read_notes(turn)
    tidy = "".join(sorted(notes.splitlines(keepends=True)))
    await turn.plan([("Read notes.txt", "completed"), ("Sort its lines", "in_progress")])

    async with turn.tool_call("Sort notes.txt", kind="edit", locations=["notes.txt"]) as call:
        await call.diff("notes.txt", old=notes, new=tidy)
        allowed = await call.ask_permission()
        if allowed:
            await turn.client.write_text_file("notes.txt", tidy)

    if allowed:
        await turn.plan([("Read notes.txt", "completed"), ("Sort its lines", "completed")])
        for piece in ("Done: ", "your notes ", "are in order."):
            await turn.say(piece)
    else:
        await turn.say("I left your notes as they are.")


async def read_notes(turn: accord.Turn) -> str:
    async with turn.tool_call("Read notes.txt", kind="read", locations=["notes.txt"], start=True) as call:
        notes = await turn.client.read_text_file("notes.txt")
        await call.text(notes)
        return notes


if __name__ == "__main__":
    agent.serve()
