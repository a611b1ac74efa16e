"""`accord serve`: the gateway and its page; `accord serve token`: who is let in."""

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Serve until told to stop; the result is the exit code."""
    if arguments and arguments[0] == "token":
        from accord.cli.serving.tokens import main as token_main

        return token_main(arguments[1:])
    from accord.cli.serving.arguments import read_arguments

    given = read_arguments(arguments)
    from accord.extras import require

    require("gateway", "accord serve")
    from accord.cli.serving.service import serve

    return serve(given)
