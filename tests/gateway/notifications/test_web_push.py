"""Encryption and signature of Web Push messages, against the example of RFC 8291 and an own reader."""

import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from tests.gateway.notifications.receiver import PushBrowser, checked_claims

from accord.errors import UsageError
from accord.gateway.notifications import web_push
from accord.gateway.notifications.web_push import from_base64, to_base64


def test_the_example_of_rfc_8291_is_encrypted_byte_by_byte() -> None:
    own = int.from_bytes(from_base64("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"), "big")
    browser = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    encrypted = web_push._encrypt(
        b"When I grow up, I want to be a watermelon",
        from_base64(browser),
        from_base64("BTBZMqHH6r4Tts7J_aSIgg"),
        derive_private_key(own, SECP256R1()),
        from_base64("DGv6ra1nlYgDCS1FRnbzlw"),
        padding=0,
    )
    assert to_base64(encrypted) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLoc"
        "InmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLV"
        "WGNWQexSgSxsj_Qulcy4a-fN"
    )


def test_every_message_has_the_same_size() -> None:
    browser = PushBrowser("https://push.example")
    device = browser.device("t1")
    long = b'"' + b"x" * (web_push.PADDED_BYTES - 2) + b'"'
    bodies = [web_push.encrypt(text, device.browser_key, device.secret) for text in (b"{}", long)]
    assert len({len(body) for body in bodies}) == 1
    assert [browser.decrypt(body) for body in bodies] == [{}, "x" * (web_push.PADDED_BYTES - 2)]


def test_the_signature_is_of_the_server_key_and_ends_within_a_day() -> None:
    key = web_push.ServerKey(web_push.new_secret())
    claims = checked_claims(key.authorization("https://push.example", "mailto:me@example.org", 1000.5))
    assert claims == {
        "aud": "https://push.example",
        "exp": 1000 + 12 * 3600,
        "sub": "mailto:me@example.org",
        "key": to_base64(key.public),
    }


@pytest.mark.parametrize("point", [b"\x04" + b"\0" * 64, b"\x02" + b"\1" * 32, b"x" * 65])
def test_a_key_that_is_no_point_of_the_curve_is_refused(point: bytes) -> None:
    with pytest.raises(UsageError, match="P-256"):
        web_push.check_public_key(point)


def test_base64_is_read_with_and_without_padding() -> None:
    assert from_base64("_-8") == from_base64("_-8=") == b"\xff\xef"
    with pytest.raises(ValueError, match="base64url"):
        from_base64("a")


def test_the_gateway_does_not_import_the_library_before_it_is_used() -> None:
    code = "import sys, accord.cli.serve_process; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
