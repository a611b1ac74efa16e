"""`accord run`: prompt any agent once, without an editor. What is wrong with the arguments is said before an agent runs."""

import asyncio
import sys
from collections.abc import Sequence

from accord.cli.running.arguments import read_arguments
from accord.errors import AccordError


def main(arguments: Sequence[str]) -> int:
    """Run one turn; the result is the exit code."""
    given = read_arguments(arguments)
    from accord.cli import exit_code
    from accord.cli.output import output_for
    from accord.cli.running.job import Job
    from accord.cli.running.person import Person, is_there
    from accord.cli.running.prompt import prompt_text
    from accord.cli.running.server import find_server

    stdout = sys.stdout  # None where the caller closed it
    terminal = stdout is not None and stdout.isatty()
    output = output_for(given.format, stdout=stdout, stderr=sys.stderr, terminal=terminal)
    try:
        prompt, server = prompt_text(given), find_server(given)
    except AccordError as error:
        output.finished(None, error, exit_code(error))
        return exit_code(error)

    async def run() -> int:
        return await Job(given, prompt, server, output, Person(output) if is_there() else None).run()

    return asyncio.run(run())
