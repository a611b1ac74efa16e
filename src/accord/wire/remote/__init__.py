"""Transports to agents on other machines: WebSocket and streamable HTTP. Start with `address.py`."""
