"""Send one prompt to an agent in each of many folders, a few at a time. Exits with 1 if one of them failed.

python examples/batch.py "list . then search TODO" folder1 folder2 ...
AGENT="claude-agent-acp" python examples/batch.py "Fix the failing test" repos/*

Rules decide permission requests, because the batch runs without a user. An agent that hangs, dies or is
refused a permission affects only its own folder.
"""

import asyncio
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import accord

AGENT = shlex.split(os.environ.get("AGENT", "")) or [sys.executable, "-m", "accord.cli", "agent"]
AT_ONCE = 4
SECONDS = 600

POLICY = accord.Policy(
    accord.Rules(
        allow=("edit", accord.Rule(kind="execute", command=("pytest *", "npm test"))),
        deny=(accord.Rule(path=("deploy/**", "*.lock")),),
        default="reads",
    )
)


@dataclass
class Done:
    """The result for one folder."""

    folder: Path
    text: str = ""
    problem: str = ""


async def work(folder: Path, prompt: str, free: asyncio.Semaphore) -> Done:
    """Run one turn of one agent in a folder."""
    handlers = accord.ClientHandlers(
        permissions=accord.by_policy(POLICY), workspace=accord.local_workspace, offer=("read",)
    )
    async with free:
        try:
            async with (
                asyncio.timeout(SECONDS),
                accord.connect(*AGENT, cwd=folder, handlers=handlers) as agent,
            ):
                session = await agent.new_session(folder)
                answer = await session.ask(prompt)
        except (accord.AccordError, TimeoutError) as error:
            return Done(folder, problem=str(error) or "timed out")
    if answer.stop_reason != "end_turn":
        return Done(folder, answer.text, f"stopped with {answer.raw_reason}")
    return Done(folder, answer.text)


async def main(prompt: str, folders: list[Path]) -> int:
    free = asyncio.Semaphore(AT_ONCE)
    failed = 0
    for next_done in asyncio.as_completed([work(folder, prompt, free) for folder in folders]):
        done = await next_done
        failed += bool(done.problem)
        print(f"== {done.folder.name}: {done.problem or 'done'}")
        print(done.text.strip())
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/batch.py PROMPT FOLDER ...")
    sys.exit(asyncio.run(main(sys.argv[1], [Path(name).absolute() for name in sys.argv[2:]])))
