"""Every message of the reference transcripts decodes into its type and encodes back to the same JSON."""

import json
from typing import Any

import pytest
from tests.schema.transcripts import Message, messages

from accord.schema.codec import decode_strict, encode, read, to_builtins
from accord.schema.validation import violations

MESSAGES = messages()
every_message = pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.title)


def canonical(value: Any) -> str:
    """One text per JSON value. Distinguishes 1 from true and 1.0, and null from absent."""
    return json.dumps(value, sort_keys=True)


@every_message
def test_a_message_survives_the_round_trip(message: Message) -> None:
    typed = decode_strict(message.type, json.dumps(message.body).encode())
    assert canonical(json.loads(encode(typed))) == canonical(message.body)
    assert canonical(to_builtins(typed)) == canonical(message.body)


@every_message
def test_lenient_and_exact_reading_agree(message: Message) -> None:
    assert read(message.type, message.body) == decode_strict(message.type, json.dumps(message.body).encode())


@every_message
def test_strict_validation_finds_no_violations(message: Message) -> None:
    assert violations(message.type, message.body) == []


def test_stable_conversations_use_stable_methods_only() -> None:
    stable = [message for message in MESSAGES if "Unstable" not in message.conversation]
    assert {message.method.name for message in stable if not message.method.stable} == set()


def test_the_transcripts_are_complete() -> None:
    assert len(MESSAGES) == 126
    assert len({message.conversation for message in MESSAGES}) == 8
