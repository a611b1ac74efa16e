"""Accord beside the official SDKs: the same work, the same machine, one run (`python -m benchmarks`)."""
