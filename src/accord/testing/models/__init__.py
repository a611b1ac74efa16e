"""A scripted model server: what a provider would answer, said by the test, in the formats that providers speak."""

from accord.testing.models.script import (
    Answer,
    Call,
    Drop,
    Fault,
    Gate,
    Raw,
    Refusal,
    Reply,
    Thought,
    Tokens,
)
from accord.testing.models.server import ModelServer, SeenRequest

__all__ = [
    "Answer",
    "Call",
    "Drop",
    "Fault",
    "Gate",
    "ModelServer",
    "Raw",
    "Refusal",
    "Reply",
    "SeenRequest",
    "Thought",
    "Tokens",
]
