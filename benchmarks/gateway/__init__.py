"""Benchmarks of the gateway: cost per message, fan-out, memory, and time to load a session again."""
