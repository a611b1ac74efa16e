"""Accord: the Agent Client Protocol (ACP) for Python, both sides of it."""

__version__ = "0.1.0"
