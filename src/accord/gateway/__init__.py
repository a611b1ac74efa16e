"""The gateway behind `accord serve`: agents on the network, and sessions that outlive connections.

The parts, from the socket to the agent: `http/` listens, speaks HTTP and WebSocket, keeps a client
connection alive across dropped sockets and serves the page. `access/` has tokens, browser logins, origins,
limits and the audit log. `client_connection.py` is the contract between `http/` and the rest. `methods/`
serves the requests of clients. The other modules own the agent processes, the live sessions, their clients
and the inbox.
"""
