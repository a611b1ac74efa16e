"""Bytes and sockets: listening, HTTP/1.1, HTTP/2, WebSocket, event streams, lines that outlive sockets, the page's files.

From the socket inwards: `listener` looks at the first bytes; `http1`, `http2` and `websocket` speak their protocol; `routes`
sends a request to its endpoint (`acp`, `api`, `page`); `line` and `stream` number and keep what goes to a client.
"""

from accord.gateway.http.http_server import HttpServer, serve_http
from accord.gateway.http.server_config import ServerConfig, tls_context

__all__ = ["HttpServer", "ServerConfig", "serve_http", "tls_context"]
