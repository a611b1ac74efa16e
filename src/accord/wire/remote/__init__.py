"""Transports to agents on other machines: WebSocket and streamable HTTP. `dial.py` is the way in; the rest
loads with use.
"""
