"""How often a test repeats its proof with random values: fully in `make test-long`, else in part."""

import os

import pytest

ALL = bool(os.environ.get("LONG_TESTS"))

IN_LONG_RUNS = pytest.mark.skipif(not ALL, reason="in `make test-long`")
"""Marks a test whose proof another test repeats with another program."""


def repetitions(number: int) -> int:
    """This number in a long run, else a quarter of it, but at least 50."""
    return number if ALL else min(number, max(50, number // 4))
