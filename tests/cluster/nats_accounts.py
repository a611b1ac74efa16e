"""Operator, account and user of a NATS server, signed as `nsc` does it."""

import os
import time
from base64 import b32encode, urlsafe_b64encode
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import nkeys

_CREDS = """-----BEGIN NATS USER JWT-----
%s
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
%s
------END USER NKEY SEED------
"""
_LIMITS = ("subs", "data", "payload", "imports", "exports", "conn", "leaf", "streams", "consumer")
_UNLIMITED = dict.fromkeys((*_LIMITS, "mem_storage", "disk_storage"), -1)


class NatsAccount(NamedTuple):
    """What a server needs to trust an account, and the `.creds` file of its user."""

    config: str
    creds: str


def new_account() -> NatsAccount:
    """Create an operator with one account, which may use JetStream, and one user."""
    pairs: list[Any] = [
        nkeys.from_seed(nkeys.encode_seed(os.urandom(32), prefix))
        for prefix in (
            nkeys.PREFIX_BYTE_OPERATOR,
            nkeys.PREFIX_BYTE_ACCOUNT,
            nkeys.PREFIX_BYTE_USER,
            nkeys.PREFIX_BYTE_ACCOUNT,
        )
    ]
    operator, account, user, system = pairs
    account_id = account.public_key.decode()
    operator_text = _signed(operator, operator, {"type": "operator"})
    limits = {**_UNLIMITED, "wildcards": True}
    account_text = _signed(operator, account, {"type": "account", "limits": limits})
    system_id = system.public_key.decode()
    system_text = _signed(operator, system, {"type": "account"})
    accounts = f"{account_id}: {account_text}, {system_id}: {system_text}"
    config = (
        f"operator: {operator_text}\nsystem_account: {system_id}\n"
        f"resolver: MEMORY\nresolver_preload: {{ {accounts} }}"
    )
    claims = {"type": "user", "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
    return NatsAccount(config, _CREDS % (_signed(account, user, claims), user.seed.decode()))


def _signed(issuer: Any, subject: Any, claims: dict[str, Any]) -> str:
    body: dict[str, Any] = {
        "iat": int(time.time()),
        "iss": issuer.public_key.decode(),
        "sub": subject.public_key.decode(),
        "name": claims["type"],
        "nats": {**claims, "version": 2},
    }
    body["jti"] = b32encode(sha256(msgspec.json.encode(body)).digest()).decode().rstrip("=")
    parts = [_base64(msgspec.json.encode(part)) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body)]
    text = ".".join(parts)
    return f"{text}.{_base64(issuer.sign(text.encode()))}"


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
