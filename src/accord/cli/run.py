"""`accord run`: prompt any agent once, without an editor. What is wrong with the arguments is said before an agent runs."""

import asyncio
from collections.abc import Sequence

from accord.cli.running.arguments import read_arguments


def main(arguments: Sequence[str]) -> int:
    """Run one turn; the result is the exit code."""
    given = read_arguments(arguments)
    from accord.cli.running.job import find_server, run
    from accord.cli.running.prompt import prompt_text

    prompt = prompt_text(given)
    return asyncio.run(run(given, prompt, find_server(given)))
