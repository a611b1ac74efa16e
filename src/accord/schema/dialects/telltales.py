"""Text in a raw message that makes a repair worth trying although the official reading passes.

These members stand in for official ones that are optional, so that nothing fails where they are used instead. Only
methods that a person waits for are looked at, never the stream of updates.
"""

from collections.abc import Mapping
from typing import Final

PARAMS_TELLTALES: Final[Mapping[str, tuple[bytes, ...]]] = {
    "initialize": (b'"capabilities"', b'"planCapabilities"'),
    "session/request_permission": (b'"input"', b'"raw_input"', b'"args"'),
}

RESULT_TELLTALES: Final[Mapping[str, tuple[bytes, ...]]] = {
    "initialize": (b'"env_var"',),
    "session/new": (b'"models"',),
    "session/load": (b'"models"',),
    "session/resume": (b'"models"',),
    "session/fork": (b'"models"',),
    "session/prompt": (b'"content"',),
}
