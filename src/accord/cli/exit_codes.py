"""The exit codes of the `accord` commands. docs/run.md documents them."""

from typing import Final

from accord import errors
from accord.errors import (
    AccordError,
    AuthRequired,
    BadAnswer,
    ConnectionClosed,
    LimitReached,
    RpcError,
    UsageError,
)

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
AGENT_BROKE: Final = 3
TIMEOUT: Final = 4
NO_PERMISSION: Final = 5
AUTH: Final = 6
INTERRUPTED: Final = 130


def exit_code(error: AccordError) -> int:
    """Return the exit code for an error that ended a command."""
    match error:
        case UsageError() | RpcError(data={"reason": errors.CONFIGURATION}):
            return USAGE
        case ConnectionClosed() | BadAnswer():
            return AGENT_BROKE
        case LimitReached():
            return TIMEOUT
        case AuthRequired():
            return AUTH
        case _:
            return FAILED
