"""Secrets in addresses: the password before the host, the parameters of a query, the paths of webhooks."""

import re
from typing import Final
from urllib.parse import unquote

from accord.trace.names import REDACTED, is_secret, words

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,30})?://([^\s\"'<>`]+)")
_PLACE_ENDS: Final = re.compile(r"[/?#]")
_PARAMETER: Final = re.compile(r"([?&;#])([A-Za-z0-9_.\-%\[\]]{1,80})=([^\s&#\"'<>]+)")
_PARAMETERS: Final = frozenset(words("key sig signature code auth sign hash pass pwd ticket assertion"))
_WEBHOOK: Final = re.compile(
    r"(?i)((?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks|\.webhook\.office\.com"
    r"|hooks\.zapier\.com/hooks|chat\.googleapis\.com/v1/spaces)/|api\.telegram\.org/bot)[^\s\"'<>]+"
)
_PLAIN_USERS: Final = ("git", "hg", "svn", "anonymous")


def redact_addresses(text: str) -> str:
    """The text with the secrets of its addresses taken out; only for text with `://` in it."""
    if "@" in text:
        text = _ADDRESS.sub(_without_password, text)
    if "=" in text:
        text = _PARAMETER.sub(_without_parameter, text)
    return _WEBHOOK.sub(rf"\1{REDACTED}", text)


def _without_password(found: "re.Match[str]") -> str:
    scheme, rest = found[1] or "", found[2]
    end = _password_ends(scheme.lower(), rest)
    if end <= 0 or rest[:end] in _PLAIN_USERS:
        return found[0]
    return f"{scheme}://{REDACTED}{rest[end:]}"


def _password_ends(scheme: str, rest: str) -> int:
    """Where the @ before the host is; 0 where there is none. A password may hold an @ or a slash that nobody escaped."""
    first = rest.find("@")
    if first < 0:
        return 0
    found = _PLACE_ENDS.search(rest)
    place = found.start() if found else len(rest)
    if first > place:
        colon = rest.find(":", 0, place)
        if colon < 0 or rest[colon + 1 : place].isdigit() or rest[0] == "[":
            return 0  # a host, perhaps with its port, and an @ in the path
    if not scheme.startswith("http"):
        return rest.rfind("@")  # nothing behind the host of a database or a proxy holds one
    found = _PLACE_ENDS.search(rest, first)
    return rest.rfind("@", 0, found.start() if found else len(rest))


def _without_parameter(found: "re.Match[str]") -> str:
    sign, name, _ = found.groups()
    plain = unquote(name)
    lowered = plain.lower()
    secret = is_secret(plain) or lowered in _PARAMETERS or lowered.startswith("x-amz-")
    return f"{sign}{name}={REDACTED}" if secret else found[0]
