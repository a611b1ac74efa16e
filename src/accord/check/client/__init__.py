"""Conformance of clients: an agent that is played scene by scene, and what the client makes of it."""
