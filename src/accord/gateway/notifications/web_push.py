"""Web Push messages: encryption (RFC 8291, `aes128gcm`) and the sender's signature (VAPID, RFC 8292).

A message is encrypted for one browser. The push service learns its size, which is always the same, and when
it was sent.

Imported on first use: it loads `cryptography`, of the extra `accord[push]`.
"""

import hashlib
import hmac
import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    derive_private_key,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from accord.errors import UsageError

PADDED_BYTES: Final = 1024
"""Every message has this size before it is encrypted. The limit of push services is about 3990 bytes."""
_RECORD_BYTES: Final = 4096
_SIGNATURE_SECONDS: Final = 12 * 3600
"""How long a signature is valid; at most 24 hours are allowed."""
_CURVE: Final = SECP256R1()


class ServerKey:
    """The key that a gateway signs with. Subscriptions are bound to it."""

    def __init__(self, secret: bytes) -> None:
        """`secret` is of `new_secret`. Raises ValueError for another one."""
        self._key = derive_private_key(int.from_bytes(secret, "big"), _CURVE)
        self.public: bytes = point_of(self._key.public_key())

    def authorization(self, audience: str, contact: str, now: float) -> str:
        """Return the `Authorization` header for a push service.

        `audience` is the scheme and the host of the endpoint, `contact` a `mailto:` or `https:` address.
        """
        claims = {"aud": audience, "exp": int(now) + _SIGNATURE_SECONDS, "sub": contact}
        parts = [to_base64(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ES256"}, claims)]
        text = ".".join(parts)
        r, s = decode_dss_signature(self._key.sign(text.encode(), ECDSA(hashes.SHA256())))
        signature = to_base64(r.to_bytes(32, "big") + s.to_bytes(32, "big"))
        return f"vapid t={text}.{signature}, k={to_base64(self.public)}"


def new_secret() -> bytes:
    """Return the secret of a new `ServerKey`: 32 bytes."""
    return generate_private_key(_CURVE).private_numbers().private_value.to_bytes(32, "big")


def check_public_key(point: bytes) -> None:
    """Raise UsageError unless this is the public key of a browser: a point of the curve P-256."""
    try:
        EllipticCurvePublicKey.from_encoded_point(_CURVE, point)
    except ValueError:
        raise UsageError("the key `p256dh` of the subscription is no point of the curve P-256") from None


def encrypt(message: bytes, browser_key: bytes, secret: bytes) -> bytes:
    """Return the body of the request to the push service.

    `browser_key` and `secret` are the keys `p256dh` and `auth` of the subscription. The message has at most
    `PADDED_BYTES`.
    """
    return _encrypt(
        message, browser_key, secret, generate_private_key(_CURVE), os.urandom(16), padding=PADDED_BYTES
    )


def _encrypt(
    message: bytes,
    browser_key: bytes,
    secret: bytes,
    own_key: EllipticCurvePrivateKey,
    salt: bytes,
    *,
    padding: int,
) -> bytes:
    shared = own_key.exchange(ECDH(), EllipticCurvePublicKey.from_encoded_point(_CURVE, browser_key))
    own_point = point_of(own_key.public_key())
    input_key = _derive(secret, shared, b"WebPush: info\0" + browser_key + own_point, 32)
    content_key = _derive(salt, input_key, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(salt, input_key, b"Content-Encoding: nonce\0", 12)
    # The byte 2 ends the message in the last record. Zeros after it are padding.
    record = (message + b"\x02").ljust(padding + 1, b"\0")
    head = salt + _RECORD_BYTES.to_bytes(4, "big") + bytes([len(own_point)]) + own_point
    return head + AESGCM(content_key).encrypt(nonce, record, None)


def _derive(salt: bytes, key: bytes, info: bytes, length: int) -> bytes:
    """HKDF with SHA-256, for at most one block."""
    extracted = hmac.digest(salt, key, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)[:length]


def point_of(key: EllipticCurvePublicKey) -> bytes:
    """Return a public key as its uncompressed point, 65 bytes."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def to_base64(data: bytes) -> str:
    """Encode as base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64(text: str) -> bytes:
    """Decode base64url with or without padding. Raises ValueError."""
    try:
        return urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except Base64Error as error:
        raise ValueError(f"not base64url: {error}") from None
