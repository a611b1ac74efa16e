"""The terminal client: its first paint, keys during a flood, and long sessions. `python -m benchmarks.tui` prints the figures."""
