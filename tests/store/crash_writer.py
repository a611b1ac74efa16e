"""Starts writer processes for the kill tests.

Reads lines with a path and a seed from stdin. Forks one writer per line; the writer works on that store and
reports on stdout what it committed until it is killed. Then the parent prints `gone`.
"""

import os
import sys
from pathlib import Path
from random import Random

from accord.schema import AgentMessageChunk, TextContent, ToolCall
from accord.session import TurnStarted
from accord.store.sqlite_store import SqliteStore


def report(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def write_until_killed(path: Path, seed: int) -> None:
    """Run random store operations without end. Announce deletions before they start, report commits after."""
    random = Random(seed)
    store = SqliteStore(path, checkpoint_pages=40)
    counts = {
        summary.session_id: sum(
            isinstance(event, AgentMessageChunk) for event in store.events(summary.session_id)
        )
        for summary in store.list(limit=1000, archived="include").sessions
    }
    journals = {name: store.journal(name) for name in counts}
    for step in range(1_000_000):
        action = random.choices(["say", "create", "fork", "title", "delete"], [40, 2, 2, 1, 1])[0]
        if not counts:
            action = "create"
        name = random.choice(sorted(counts)) if counts else ""
        new = f"{seed}-{step}"
        if action == "create":
            store.create(new, "/home/me")
            journals[new], counts[new] = store.journal(new), 0
            journals[new].append(TurnStarted([TextContent("go")]), ToolCall("c1", "Work"))
            store.commit()
            report("committed", new, 0)
        elif action == "fork" and len(counts) < 12:
            store.fork(name, new)
            journals[new], counts[new] = store.journal(new), counts[name]
            report("committed", new, counts[new])
        elif action == "title":
            store.set_title(name, f"title {step}")
        elif action == "delete" and len(counts) > 3:
            report("deleting", name)
            store.delete(name)
            report("deleted", name)
            del counts[name], journals[name]
        else:
            for _ in range(random.choice([1, 1, 3, 30])):
                text = str(counts[name]) + " " * random.choice([0, 10, 3000])
                journals[name].append(AgentMessageChunk(TextContent(text)))
                journals[name].record("model", {"text": text})
                counts[name] += 1
            store.commit()
            report("committed", name, counts[name])


def main() -> None:
    for line in sys.stdin:
        path, seed = line.split()
        child = os.fork()
        if child == 0:
            report("pid", os.getpid())
            write_until_killed(Path(path), int(seed))
        os.waitpid(child, 0)
        report("gone")


if __name__ == "__main__":
    main()
