"""The scripted agent on the official Python SDK, served over streamable HTTP and WebSocket by Hypercorn.

Usage: official_python_server.py [CERTIFICATE KEY]. A certificate enables HTTP/2. Prints its port first.
"""

import asyncio
import functools
import signal
import socket
import sys

from acp.agent.connection import AgentSideConnection
from acp.http import server
from acp.http.asgi import create_asgi_app
from hypercorn.asyncio import serve
from hypercorn.config import Config
from official_python_agent import ScriptedAgent


async def main(certificate: str | None = None, key: str | None = None) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    config = Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.certfile, config.keyfile = certificate, key
    config.websocket_max_message_size = 64 * 1024 * 1024
    config.graceful_timeout = 1
    # The server has no option for unstable methods, session/list among them.
    server.AgentSideConnection = functools.partial(AgentSideConnection, use_unstable_protocol=True)  # type: ignore[misc, assignment]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    app = create_asgi_app(lambda connection: ScriptedAgent())
    await serve(app, config, shutdown_trigger=stop.wait)  # type: ignore[arg-type]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
