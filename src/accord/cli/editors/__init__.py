"""Editors that can launch `accord agent`: where each keeps its settings, and what has to stand there."""
