"""Patterns that an agent wrote, evaluated in bounded time.

Python's `re` can take for ever on a hostile pattern and lets nothing else run meanwhile, so it runs in a process of its
own, which is killed when its time is over. What could not be judged in time counts as not judged.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Final

from accord.clock import SYSTEM_CLOCK, Clock

LONGEST_PATTERN: Final = 1000
LONGEST_TEXT: Final = 100_000
SECONDS: Final = 1.0

_PROGRAM: Final = """
import json, re, sys
for pattern, text in json.load(sys.stdin):
    try:
        verdict = re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        verdict = None
    print(json.dumps(verdict), flush=True)
"""


async def matches(
    pairs: Sequence[tuple[str, str]], *, seconds: float = SECONDS, clock: Clock = SYSTEM_CLOCK
) -> list[bool | None]:
    """For each pattern and text, whether the pattern occurs in the text; None for what cannot be judged."""
    verdicts: list[bool | None] = [None] * len(pairs)
    judged = [
        place
        for place, (pattern, text) in enumerate(pairs)
        if len(pattern) <= LONGEST_PATTERN and len(text) <= LONGEST_TEXT
    ]
    if not judged:
        return verdicts
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", _PROGRAM,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip

    def overdue() -> None:
        if process.returncode is None:
            process.kill()

    timer = clock.call_later(seconds, overdue)
    try:
        said, _ = await process.communicate(json.dumps([pairs[place] for place in judged]).encode())
    finally:
        timer.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    # What came out before a kill counts: one hostile field does not spare the others.
    for place, line in zip(judged, said.decode().splitlines(), strict=False):
        verdicts[place] = json.loads(line)
    return verdicts
