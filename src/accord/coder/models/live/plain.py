"""Requests that are plain JSON already, past the SDKs' look at every member of them.

The SDKs compare each message of a request with its declared type, to rename members and encode files. For a long conversation
that takes longer than everything else on the way. What pydantic-ai has made is in its final form, so it goes along as
`extra_body`, which the SDKs lay over the request unchanged.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

_LARGE: Final = ("messages", "input", "tools")
"""The members that grow with a conversation."""


def spare(resource: Any) -> None:
    """Let an SDK's resource (`client.chat.completions`, say) leave the large members of its requests alone."""
    resource.create = _plainly(resource.create)


def _plainly(create: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:

    async def created(**given: Any) -> Any:
        large = {name: given[name] for name in _LARGE if isinstance(given.get(name), list)}
        if large:
            # Required ones must be named; the real ones take their place.
            given |= {name: [] for name in large}
            given["extra_body"] = {**(given.get("extra_body") or {}), **large}
        return await create(**given)

    return created
