"""Permissions of tool calls: the gate between the loop and `accord.policy`, the sandbox, settings, and
project trust."""
