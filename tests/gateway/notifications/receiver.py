"""A stand-in for push services, ntfy servers and webhooks, and for the browsers that decrypt the messages."""

import asyncio
import hashlib
import hmac
import json
import ssl
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import h11
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from tests.certificates import Certificate
from tests.patience import PATIENCE

from accord.gateway.access.push_devices import NotifiedEvent, PushDevice
from accord.gateway.notifications.web_push import from_base64, point_of, to_base64


class ReceivedRequest(NamedTuple):
    """One POST."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """An HTTPS server that keeps each request and answers with the next of `answers`, else with 201."""

    def __init__(self, url: str, trusted: ssl.SSLContext) -> None:
        self.url = url
        self.trusted = trusted
        self.answers: deque[tuple[int, dict[str, str]]] = deque()
        self.received: asyncio.Queue[ReceivedRequest] = asyncio.Queue()

    async def next(self) -> ReceivedRequest:
        return await asyncio.wait_for(self.received.get(), PATIENCE)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http, body, head = h11.Connection(h11.SERVER), b"", None
        while not isinstance(event := http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                break
        if head is not None:
            headers = {name.decode(): value.decode() for name, value in head.headers}
            self.received.put_nowait(ReceivedRequest(head.target.decode(), headers, body))
            status, more = self.answers.popleft() if self.answers else (201, {})
            response = h11.Response(status_code=status, headers=[("content-length", "0"), *more.items()])
            writer.write((http.send(response) or b"") + (http.send(h11.EndOfMessage()) or b""))
        writer.close()


@asynccontextmanager
async def running_receiver(certificate: Certificate) -> AsyncGenerator[Receiver]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    receivers: list[Receiver] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receivers[0].serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    receivers.append(Receiver(f"https://127.0.0.1:{port}", trusted))
    async with server:
        yield receivers[0]


class PushBrowser:
    """A browser with a subscription at a push service."""

    def __init__(self, service: str, name: str = "phone") -> None:
        self.endpoint = f"{service}/push/{name}"
        self._key = generate_private_key(SECP256R1())
        self.public = point_of(self._key.public_key())
        self._secret = hashlib.sha256(name.encode()).digest()[:16]

    def device(self, token: str, events: tuple[NotifiedEvent, ...] = ("waits", "done")) -> PushDevice:
        return PushDevice(
            endpoint=self.endpoint,
            browser_key=self.public,
            secret=self._secret,
            token=token,
            events=events,
            created=time.time(),
        )

    def subscription(self, *events: str) -> dict[str, Any]:
        keys = {"p256dh": to_base64(self.public), "auth": to_base64(self._secret)}
        return {"endpoint": self.endpoint, "keys": keys, "events": events}

    def decrypt(self, body: bytes) -> Any:
        """Decrypt a message as RFC 8188 and RFC 8291 say."""
        salt, size, sender = body[:16], int.from_bytes(body[16:20], "big"), body[21 : 21 + body[20]]
        assert len(body) - 21 - body[20] <= size == 4096
        assert len(body) < 4096
        shared = self._key.exchange(ECDH(), EllipticCurvePublicKey.from_encoded_point(SECP256R1(), sender))
        key = _hkdf(self._secret, shared, b"WebPush: info\0" + self.public + sender, 32)
        content_key = _hkdf(salt, key, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _hkdf(salt, key, b"Content-Encoding: nonce\0", 12)
        text, _, padding = AESGCM(content_key).decrypt(nonce, body[86:], None).rpartition(b"\x02")
        assert not padding.strip(b"\0")
        return json.loads(text)


def _hkdf(salt: bytes, key: bytes, info: bytes, length: int) -> bytes:
    return hmac.digest(hmac.digest(salt, key, "sha256"), info + b"\x01", "sha256")[:length]


def checked_claims(authorization: str) -> dict[str, Any]:
    """Verify a VAPID header with the key in it; return the claims and that key, as `key`."""
    scheme, _, rest = authorization.partition(" ")
    assert scheme == "vapid"
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    head, claims, signature = parts["t"].split(".")
    assert json.loads(from_base64(head)) == {"typ": "JWT", "alg": "ES256"}
    raw = from_base64(signature)
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), from_base64(parts["k"]))
    key.verify(der, f"{head}.{claims}".encode(), ECDSA(hashes.SHA256()))
    return {**json.loads(from_base64(claims)), "key": parts["k"]}
