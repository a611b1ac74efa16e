"""Agents on the network: WebSocket and streamable HTTP in front, sessions that outlive connections behind.

The parts, from the socket to the agent:
* `front/` listens, speaks HTTP and WebSocket, keeps a line alive over dropped sockets, serves the page;
* `access/` knows tokens, tickets, origins, limits, and keeps the audit log;
* `line.py` is the seam between the front and the rest;
* the modules beside it own the agents' processes, the live sessions and who is attached to them, and the inbox.
"""
