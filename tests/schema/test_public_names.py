"""Pins the public names of `accord.schema`. Add a new name to `public_names.txt` on purpose."""

from pathlib import Path

from tests.schema.our_facts import public_names

NAMES = Path(__file__).with_name("public_names.txt")


def test_the_public_names_of_the_schema_are_pinned():
    assert public_names() == NAMES.read_text("utf-8").split()
