"""The line of `accord doctor` about the gateway: what is installed, where one runs, the port, the tokens, the page."""

import errno
import socket
import time

from accord.cli.health import BROKEN, Finding
from accord.errors import UsageError
from accord.extras import is_installed


def gateway_finding() -> Finding:
    """How it stands. Makes nothing."""
    from accord.cli.serving.settings import read_settings, settings_file
    from accord.gateway.access.tokens import Tokens
    from accord.gateway.running import all_running

    try:
        settings = read_settings()
    except UsageError as error:
        return Finding("gateway", BROKEN, str(error))
    if not is_installed("gateway"):
        return Finding("gateway", "missing", "accord serve needs: pip install 'accord[gateway]'")
    running = all_running()
    remarks = [f"at {', '.join(one.url for one in running)}"] if running else [_port(settings.port)]
    now = time.time()
    tokens = [token for token in Tokens().all() if not token.is_expired(now)]
    if tokens:
        remarks.append(f"{len(tokens)} token{'s' if len(tokens) > 1 else ''}")
    else:
        remarks.append("no token yet: the first start makes one")
    remarks.append(_page())
    remarks.append(str(settings_file()) + ("" if settings_file().exists() else " would be read"))
    return Finding("gateway", "runs" if running else "ready", "; ".join(remarks))


def _port(chosen: int | None) -> str:
    from accord.cli.serving.settings import PORT

    port = PORT if chosen is None else chosen
    if port == 0:
        return "any free port"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            return f"port {port} is {'taken by another program' if taken else 'not to be had'}"
    return f"port {port} is free"


def _page() -> str:
    from accord.gateway.front.page import FOLDER

    return (
        "the page is there"
        if (FOLDER / "index.html").is_file()
        else "the page is not built: make web, with Node"
    )
