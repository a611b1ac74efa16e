"""A process with a store in its hand, told line by line what to do with it: `["say", "s1", "text"]`, answered line by line."""

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
from accord.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]


class Hand:
    """The process, as the test holds it."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.hand", str(path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def tell(self, *words: Any) -> None:
        """Ask for something, without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """What came of it: the result, or the error's type and text."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process is gone"
        return json.loads(line)

    def do(self, *words: Any) -> Any:
        self.tell(*words)
        return self.hear()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Hand":
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
                case "let go":
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
