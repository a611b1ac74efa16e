"""How long tests wait for something that must happen."""

PATIENCE = 300.0
"""In seconds. Long, for a busy machine: a test that works never waits that long."""
