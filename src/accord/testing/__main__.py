"""`python -m accord.testing SCRIPT`: the scripted agent on stdio, for clients that start a process."""

import asyncio
import sys
from pathlib import Path

from accord.errors import UsageError
from accord.testing.agents import ScriptedAgent, read_script
from accord.wire.stdio import StdioTransport


async def serve(script: Path) -> None:
    """Play the script to whoever started this process."""
    await ScriptedAgent(read_script(script)).connect(StdioTransport())


def main() -> int:
    """Run; the result is the exit code."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m accord.testing SCRIPT.json\n")
        return 2
    try:
        asyncio.run(serve(Path(sys.argv[1])))
    except UsageError as error:
        sys.stderr.write(f"accord.testing: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


sys.exit(main())
