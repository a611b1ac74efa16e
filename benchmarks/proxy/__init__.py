"""Benchmark of `accord proxy` beside a program that copies lines."""
