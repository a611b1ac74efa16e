"""Conformance checks for clients: the checker is the agent."""
