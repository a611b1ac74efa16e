"""Compares Accord with the official SDKs in one run (`python -m benchmarks`)."""
