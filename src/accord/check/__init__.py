"""Conformance checks for agents and clients: a verdict for each rule, with the messages that show it."""
