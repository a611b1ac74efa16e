"""Pins the public names of `accord.schema` and `accord.schema.v2`. Add a new name to the file on purpose."""

from pathlib import Path

import pytest
from tests.schema.our_facts import public_names


@pytest.mark.parametrize(("version", "file"), [(1, "public_names.txt"), (2, "public_names_v2.txt")])
def test_the_public_names_of_the_schema_are_pinned(version: int, file: str):
    assert public_names(version) == Path(__file__).with_name(file).read_text("utf-8").split()
