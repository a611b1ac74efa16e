"""Benchmarks of the terminal client: first paint, key latency during a turn, and long sessions."""
