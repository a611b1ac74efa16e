"""Going in circles: the same call with the same arguments and the same result, again and again."""

from typing import Any, Final

import msgspec

from accord.coder.messages import ToolResult, ToolUse

OFTEN: Final = 3
"""So many calls that changed nothing are enough."""
PATIENCE: Final = 3
"""So often the model is told; then its turn is over."""

STOPPED: Final = (
    "Not run: the same call was made {count} times in a row with the same result. It would give it again. "
    "Do something else, or say what keeps you from it."
)


class Repetition:
    """The calls of one run of the loop, as far as they repeat."""

    def __init__(self) -> None:
        self._call: bytes = b""
        self._result: bytes = b""
        self._count = 0
        self.warnings = 0

    def notice(self, use: ToolUse) -> str | None:
        """What to tell the model instead of running the call; None if it may run."""
        if self._count < OFTEN or _digest([use.name, use.arguments]) != self._call:
            return None
        self.warnings += 1
        return STOPPED.format(count=self._count)

    def done(self, use: ToolUse, result: ToolResult) -> None:
        """A call has run, with this result."""
        call, came = _digest([use.name, use.arguments]), _digest([result.parts, result.failed])
        if (call, came) == (self._call, self._result):
            self._count += 1
        else:
            self._call, self._result, self._count = call, came, 1

    @property
    def hopeless(self) -> bool:
        """Whether the model was told so often that telling it again is of no use."""
        return self.warnings >= PATIENCE


def _digest(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (ValueError, OverflowError, RecursionError):
        # Half characters and the like: no JSON, but they can be compared all the same.
        return repr(value).encode(errors="backslashreplace")
