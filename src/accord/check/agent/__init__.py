"""Conformance checks for agents: the checker is the client."""
