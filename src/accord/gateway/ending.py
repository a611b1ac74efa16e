"""How an error reaches a client: as an answer that says what happened, and of an agent that ended, how, and the last it said."""

from typing import Final

from accord.errors import BadAnswer, ConnectionClosed, InternalError, RpcError, to_rpc_error

_LAST_WORDS: Final = 2000


def rpc_error(error: BaseException) -> RpcError:
    """The error answer for whatever came in the way."""
    if isinstance(error, ConnectionClosed):
        said = {
            "exitCode": error.exit_code,
            "signal": error.signal,
            "stderr": error.stderr[-_LAST_WORDS:] or None,
        }
        facts = {name: value for name, value in said.items() if value is not None}
        return InternalError(error.args[0], facts) if facts else InternalError(error.args[0])
    if isinstance(error, BadAnswer):
        return InternalError(str(error))
    return to_rpc_error(error)
