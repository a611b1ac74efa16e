"""The gateway's HTTP server: HTTP/1.1, HTTP/2, WebSocket, event streams, resumable connections, the page's
files.

From the socket inwards: `http_server` detects the protocol; `http1`, `http2` and `websocket_server` speak
it; `http_routes` passes a request to its endpoint (`acp_endpoint`, the API or the page);
`resumable_connection` numbers and keeps the frames for a client.
"""

from accord.gateway.http.http_server import HttpServer, serve_http
from accord.gateway.http.server_config import ServerConfig, tls_context

__all__ = ["HttpServer", "ServerConfig", "serve_http", "tls_context"]
