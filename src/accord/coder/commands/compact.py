"""`/compact`: make the model's context smaller now."""

from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.coder.commands.command import BuiltIn, Reply

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench


async def run(text: str, turn: Turn, bench: "Workbench") -> Reply:
    """Compact, and keep in particular what the user names."""
    from accord.coder.room import told

    history = bench.conversation.history
    if not history.messages:
        return Reply("There is nothing to compact: the conversation has not begun.")
    model = await bench.model()
    await bench.briefing.system()
    spent = bench.spent
    request = bench.run(turn, model, history, bench.context(turn, model), requests=1, spent=spent).request()
    done = await bench.room.compact_now(turn, model, spent, request, text)
    if done.how == "nothing":
        return Reply("Nothing was compacted: there is nothing to leave out.")
    if turn.client.shows_compaction:
        return Reply(f"Context compacted: {told(done)}.")
    return Reply(
        "The conversation goes on from there."
    )  # what was done stands above, as a message of its own


COMPACT: Final = BuiltIn("compact", "Sum up the conversation so far to make room", "what to keep", run)
