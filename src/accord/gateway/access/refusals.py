"""A refusal at the door: the status, one sentence for whoever asked, and the headers that go with it."""

from collections.abc import Mapping
from types import MappingProxyType

from accord.errors import AccordError

_NONE: Mapping[str, str] = MappingProxyType({})


class Refused(AccordError):
    """Nobody is let in. The sentence says what is wrong and what to do, and never repeats a secret."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] = _NONE) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = dict(headers)
