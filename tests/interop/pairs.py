"""The pairs of a client and an agent, each `accord`, `python` or `typescript`."""

import pytest

Pair = tuple[str, str]

OUR_CLIENT: list[Pair] = [("accord", "python"), ("accord", "typescript"), ("accord", "accord")]
OUR_CLIENT_REMOTE: list[Pair] = [
    ("accord", "python-ws"),
    ("accord", "python-http"),
    ("accord", "python-https"),
    ("accord", "typescript-ws"),
    ("accord", "typescript-http"),
]
"""The same agents behind a URL."""
OUR_GATEWAY: list[Pair] = [
    ("python", "accord-ws"),
    ("python", "accord-http"),
    ("typescript", "accord-ws"),
    ("typescript", "accord-http"),
]
"""The network transports of the official clients, with Accord's agent behind the gateway's front.

The Python client over HTTP/2 is missing: in httpcore a response may wait behind the readers of other
streams until the server sends more.
"""
OFFICIAL_CLIENTS: list[Pair] = [("python", "accord"), ("typescript", "accord")]
OUR_AGENT: list[Pair] = [*OFFICIAL_CLIENTS, ("accord", "accord")]
OUR_CODER: list[Pair] = [("python", "coder"), ("typescript", "coder")]
"""The coding agent, with a separate script."""
CONTROLS: list[Pair] = [("python", "typescript"), ("typescript", "python")]
"""Official peers among themselves: failures here are not caused by Accord."""


def for_pairs(*groups: list[Pair]) -> pytest.MarkDecorator:
    """Run a test on the conversations of these pairs."""
    pairs = list(dict.fromkeys(pair for group in groups for pair in group))
    return pytest.mark.parametrize(
        "conversation", pairs, ids=["-to-".join(pair) for pair in pairs], indirect=True
    )
