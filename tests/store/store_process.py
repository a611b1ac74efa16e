"""A child process that runs store commands sent line by line, such as `["say", "s1", "text"]`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from accord.errors import AccordError
from accord.schema import AgentMessageChunk, TextContent
from accord.store import Journal
from accord.store.sqlite_store import SqliteStore

ROOT = Path(__file__).parents[2]


class StoreProcess:
    """Starts the process, sends commands and reads results."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.store_process", str(path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def send(self, *words: Any) -> None:
        """Send a command without waiting for its result."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        """Return the next result, or the type and text of the error."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the store process has ended"
        return json.loads(line)

    def call(self, *words: Any) -> Any:
        self.send(*words)
        return self.receive()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "StoreProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.communicate()


def main() -> None:
    path = Path(sys.argv[1])
    store: SqliteStore | None = None
    journals: dict[str, Journal] = {}
    for line in sys.stdin:
        verb, *words = json.loads(line)
        result: Any = None
        try:
            store = store or SqliteStore(path)
            match verb:
                case "open":
                    result = os.getpid()
                case "journal":
                    journals[words[0]] = store.journal(words[0])
                case "say":
                    for text in words[1:]:
                        journals[words[0]].append(AgentMessageChunk(TextContent(text)))
                        store.commit()
                case "close":
                    journals.pop(words[0]).close()
                case "create" | "fork" | "delete" | "set_title" | "archive":
                    result = str(getattr(store, verb)(*words))
                case other:
                    raise AssertionError(other)
        except AccordError as error:
            result = [type(error).__name__, str(error)]
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
    if store is not None:
        store.close()


if __name__ == "__main__":
    main()
