"""Who talks to whom: pairs of a client and an agent, each `accord`, `python` or `typescript`."""

import pytest

Pair = tuple[str, str]

OUR_CLIENT: list[Pair] = [("accord", "python"), ("accord", "typescript"), ("accord", "accord")]
OUR_CLIENT_AFAR: list[Pair] = [
    ("accord", "python-ws"),
    ("accord", "python-http"),
    ("accord", "python-https"),
    ("accord", "typescript-ws"),
    ("accord", "typescript-http"),
]
"""The same agents behind an address."""
OUR_FRONT: list[Pair] = [
    ("python", "accord-ws"),
    ("python", "accord-http"),
    ("typescript", "accord-ws"),
    ("typescript", "accord-http"),
]
"""The official clients' network transports, and Accord's agent behind the gateway's front. The Python one over HTTP/2 is not
among them: in httpcore a response may wait behind other streams' readers until the server says something more.
"""
OFFICIAL_CLIENTS: list[Pair] = [("python", "accord"), ("typescript", "accord")]
OUR_AGENT: list[Pair] = [*OFFICIAL_CLIENTS, ("accord", "accord")]
OUR_CODER: list[Pair] = [("python", "coder"), ("typescript", "coder")]
"""The coding agent with its own script."""
CONTROLS: list[Pair] = [("python", "typescript"), ("typescript", "python")]
"""Official peers among themselves: what fails here is no fault of Accord."""


def talks(*groups: list[Pair]) -> pytest.MarkDecorator:
    """Run a test on the conversations of these pairs."""
    pairs = list(dict.fromkeys(pair for group in groups for pair in group))
    return pytest.mark.parametrize("talk", pairs, ids=["-to-".join(pair) for pair in pairs], indirect=True)
