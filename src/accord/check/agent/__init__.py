"""Conformance of agents: a client spoken by hand plays scenes with the agent, and every line of it is watched."""
