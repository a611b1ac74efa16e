"""Free text without its secrets: what has the shape of a known credential, or stands behind the name of a secret.

Long text is looked through in pieces, so that nobody waits long for the interpreter.
"""

import re
from functools import lru_cache
from typing import Final

from accord.trace.addresses import redact_addresses
from accord.trace.blocks import redact_blocks
from accord.trace.named import redact_named
from accord.trace.names import REDACTED, TRIVIAL, words

__all__ = ["REDACTED", "TRIVIAL", "redact_shapes", "redact_text"]

_PREFIXES: Final = words(
    "sk- k_live_ k_test_ k_prod_ whsec_ ghp_ gho_ ghs_ ghu_ ghr_ github_pat_ gl xox xapp- AKIA ASIA AIDA AROA AIza ya29. "
    "GOCSPX- npm_ pypi- hf_ gsk_ xai- pplx- nvapi- r8_ lin_api_ figd_ dckr_pat_ shpat_ shpss_ shpca_ SG. hvs. hvb. dop_v1_ "
    "ntn_ tvly- AGE-SECRET eyJ eyK"
)
_BARE_PREFIXES: Final = words("AKIA ASIA AIDA AROA AIza")  # those that are found in letters and digits alone
_SHORT: Final = 64
_PIECE: Final = 8 * 1024
_LONGEST: Final = 8 * _PIECE  # a run of characters longer than this is data, no key
_BREAK: Final = re.compile(r"[^A-Za-z0-9_\-.+/=:]")
_SHAPES: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_\-]{12,}|[sr]k_(?:live|test|prod)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{8,}"
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|gl[a-z]{1,6}-[\w\-]{16,}|xox[a-z]-[\w\-]{8,}|xapp-[\w\-]{8,}"
    r"|A(?:KIA|SIA|IDA|ROA)[A-Z0-9]{12,}|AIza[\w\-]{30,}|ya29\.[\w\-.]{16,}|GOCSPX-[\w\-]{16,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[\w\-]{16,}|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[\w\-]{20,}|pplx-[\w\-]{20,}"
    r"|nvapi-[\w\-]{20,}|r8_[A-Za-z0-9]{20,}|lin_api_[A-Za-z0-9]{20,}|figd_[\w\-]{20,}|dckr_pat_[\w\-]{16,}|shp(?:at|ss|ca)_[a-fA-F0-9]{16,}"
    r"|SG\.[\w\-]{16,}\.[\w\-]{16,}|hv[sb]\.[\w\-]{16,}|dop_v1_[a-f0-9]{32,}|ntn_[A-Za-z0-9]{30,}|tvly-[\w\-]{16,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{20,}|ey[JK][\w\-]{8,}\.[\w\-]{8,}(?:\.[\w\-]*)?"
    r")"
)


def redact_text(text: str) -> str:
    """Free text without what has the shape of a secret, or stands behind the name of one."""
    if len(text) <= _SHORT:
        shown = _redact_short(text)
        return text if shown == text else shown
    whole = redact_blocks(text)
    if len(whole) <= _PIECE:
        return _redact_piece(whole)
    pieces = _pieces(whole)
    shown = [_redact_piece(piece) for piece in pieces]
    return whole if shown == pieces else "".join(shown)


def redact_shapes(text: str) -> str:
    """Text without what has the shape of a known credential."""
    hints = _PREFIXES if any(map(text.__contains__, "-_.")) else _BARE_PREFIXES
    return _SHAPES.sub(REDACTED, text) if any(map(text.__contains__, hints)) else text


@lru_cache(2048)
def _redact_short(text: str) -> str:
    """Ids, kinds and names come again and again."""
    return _redact_piece(redact_blocks(text))


def _redact_piece(text: str) -> str:
    shown = redact_addresses(text) if "://" in text else text
    shown = redact_shapes(redact_named(shown))
    return text if shown == text else shown


def _pieces(text: str) -> list[str]:
    """The text in pieces that one look takes, cut where no key can be."""
    pieces: list[str] = []
    place = 0
    while len(text) - place > _PIECE:
        newline = text.rfind("\n", place + _PIECE // 2, place + _PIECE)
        if newline >= 0:
            end = newline + 1
        else:
            gap = _BREAK.search(text, place + _PIECE, place + _LONGEST)
            end = gap.end() if gap else min(place + _LONGEST, len(text))
        pieces.append(text[place:end])
        place = end
    pieces.append(text[place:])
    return pieces
