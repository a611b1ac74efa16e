"""An agent at an address, as the commands name it: `--url URL`, with a token from a file or from the environment.

A token never stands on the command line by itself, where every user of the machine could read it. One in the address (a
pairing link has it) works, and is shown nowhere.
"""

import os
from collections.abc import Mapping
from typing import Final

from accord.client.servers import Server
from accord.errors import UsageError
from accord.wire.remote.address import read_address
from accord.wire.remote.dial import Dial

TOKEN: Final = "ACCORD_TOKEN"
_LONGEST: Final = 8 * 1024


def read_dial(url: str, token_file: str | None, environ: Mapping[str, str] | None = None) -> Dial:
    """How the agent is reached. The file's token comes first, then the address's, then `ACCORD_TOKEN`. Raises UsageError."""
    address = read_address(url, token=None if token_file is None else _token_in(token_file))
    if not any(name == "Authorization" for name, _ in address.headers):
        token = (os.environ if environ is None else environ).get(TOKEN, "").strip()
        if token:
            address = read_address(url, token=token)
    return Dial(address)


def server_at(dial: Dial) -> Server:
    """The agent there. It gets no MCP servers of this machine: their commands are here, and their keys would go there."""
    return Server(name=str(dial), origin="user", command=(), place="--url")


def _token_in(path: str) -> str:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise UsageError(f"--token-file {path!r} cannot be read: {error.strerror}") from None
    token = data.decode(errors="replace").strip()
    if not token or len(data) > _LONGEST or len(token.split()) > 1:
        raise UsageError(f"--token-file {path!r} does not hold one token and nothing else")
    return token
