"""Benchmarks of the coding agent over ACP, with a scripted model server."""
