"""`python -m accord.testing SCRIPT`: a scripted agent on stdio, for clients that start a process.

`python -m accord.testing hostile NAME` runs a hostile agent; without a name it lists them.
"""

import asyncio
import sys
from pathlib import Path

from accord.errors import UsageError

_USAGE = "usage: python -m accord.testing SCRIPT.json | hostile [NAME]\n"


async def serve(script: Path) -> None:
    """Run the script as an agent on stdio."""
    from accord.testing.scripted_agent import ScriptedAgent, read_script
    from accord.wire.stdio import StdioTransport

    await ScriptedAgent(read_script(script)).connect(StdioTransport())


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    try:
        if words[:1] == ["hostile"]:
            from accord.testing.hostile import main as hostile

            return hostile(words[1:])
        if words in (["-h"], ["--help"]):
            sys.stdout.write(_USAGE)
            return 0
        if len(words) != 1 or words[0].startswith("-"):
            sys.stderr.write(_USAGE)
            return 2
        asyncio.run(serve(Path(words[0])))
    except UsageError as error:
        sys.stderr.write(f"accord.testing: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


sys.exit(main(sys.argv[1:]))
