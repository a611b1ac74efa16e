"""A process that bears writers and buries them. For every line on stdin, a path and a seed, it forks one that works on the store
there and says on stdout what it has committed, until somebody kills it; then it says `gone`.
"""

import os
import sys
from pathlib import Path
from random import Random

from accord.schema import AgentMessageChunk, TextContent, ToolCall
from accord.session import TurnStarted
from accord.store.sqlite import SqliteStore


def tell(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def live(path: Path, seed: int) -> None:
    """Do anything that a store can do, for ever. What may be half done is announced, what is done is reported."""
    random = Random(seed)
    store = SqliteStore(path, checkpoint_pages=40)
    counts = {
        head.session_id: sum(isinstance(event, AgentMessageChunk) for event in store.events(head.session_id))
        for head in store.list(limit=1000, archived="include").heads
    }
    journals = {name: store.journal(name) for name in counts}
    for step in range(1_000_000):
        deed = random.choices(["say", "create", "fork", "title", "delete"], [40, 2, 2, 1, 1])[0]
        if not counts:
            deed = "create"
        name = random.choice(sorted(counts)) if counts else ""
        new = f"{seed}-{step}"
        if deed == "create":
            store.create(new, "/home/me")
            journals[new], counts[new] = store.journal(new), 0
            journals[new].append(TurnStarted([TextContent("go")]), ToolCall("c1", "Work"))
            store.commit()
            tell("said", new, 0)
        elif deed == "fork" and len(counts) < 12:
            store.fork(name, new)
            journals[new], counts[new] = store.journal(new), counts[name]
            tell("said", new, counts[new])
        elif deed == "title":
            store.set_title(name, f"title {step}")
        elif deed == "delete" and len(counts) > 3:
            tell("deleting", name)
            store.delete(name)
            tell("deleted", name)
            del counts[name], journals[name]
        else:
            for _ in range(random.choice([1, 1, 3, 30])):
                text = str(counts[name]) + " " * random.choice([0, 10, 3000])
                journals[name].append(AgentMessageChunk(TextContent(text)))
                journals[name].record("model", {"text": text})
                counts[name] += 1
            store.commit()
            tell("said", name, counts[name])


def main() -> None:
    for line in sys.stdin:
        path, seed = line.split()
        child = os.fork()
        if child == 0:
            tell("pid", os.getpid())
            live(Path(path), int(seed))
        os.waitpid(child, 0)
        tell("gone")


if __name__ == "__main__":
    main()
