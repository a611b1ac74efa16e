"""Frames, envelopes, the connection and its transports. Knows JSON-RPC, not ACP's methods."""
