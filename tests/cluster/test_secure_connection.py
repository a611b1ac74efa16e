"""TLS, client certificates and `.creds` files, against real servers: each mistake is one clear line."""

from pathlib import Path

import pytest
from tests.certificates import new_certificate
from tests.cluster.nats_accounts import new_account
from tests.cluster.nats_servers import connected, nats_server

from accord.cluster.connection import connect
from accord.cluster.jetstream import JetStream
from accord.cluster.settings import ClusterSettings
from accord.cluster.streams import prepare_streams
from accord.errors import UsageError


async def _refused(settings: ClusterSettings) -> str:
    with pytest.raises(UsageError) as caught:
        await connect(settings, "n1")
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_tls_with_client_certificates(tmp_path: Path) -> None:
    authority = new_certificate(tmp_path, "authority")
    mine, stranger = (
        new_certificate(tmp_path, "node", issuer=authority),
        new_certificate(tmp_path, "stranger"),
    )
    of_server = new_certificate(tmp_path, "server", issuer=authority)
    rules = (
        f'tls {{ cert_file: "{of_server.file}", key_file: "{of_server.key}", '
        f'ca_file: "{authority.file}", verify: true }}'
    )
    with nats_server(tmp_path / "data", more=rules) as server:
        trusted = {"tls_ca": authority.file, "servers": (server.url.replace("nats:", "tls:"),)}
        async with connected(server.settings(**trusted, tls_cert=mine.file, tls_key=mine.key)) as connection:
            assert connection.is_encrypted
        for settings in (
            server.settings(),  # the system does not know the authority
            server.settings(tls_ca=stranger.file),
            server.settings(**trusted),
            server.settings(**trusted, tls_cert=stranger.file, tls_key=stranger.key),
        ):
            line = await _refused(settings)
            assert line.startswith("no encrypted connection to the NATS server at ")
            assert line.endswith("check tlsCa, tlsCert and tlsKey in the cluster settings")
    assert "tlsCa file '/missing.pem' does not exist" in await _refused(
        server.settings(tls_ca="/missing.pem")
    )
    (tmp_path / "text.pem").write_text("no certificate")
    assert "cannot use the TLS files" in await _refused(server.settings(tls_ca=str(tmp_path / "text.pem")))


async def test_no_password_is_sent_to_a_server_without_tls(tmp_path: Path) -> None:
    """A server, or a machine in between, could otherwise ask for the password in plain text."""
    authority = new_certificate(tmp_path, "authority")
    (tmp_path / "password").write_text("right")
    with nats_server(tmp_path / "data", more="authorization { user: accord, password: right }") as server:
        login = {"user": "accord", "password_file": str(tmp_path / "password")}
        for settings in (
            server.settings(**login, servers=(server.url.replace("nats:", "tls:"),)),
            server.settings(**login, tls_ca=authority.file),
        ):
            assert "does not use TLS; set it up there" in await _refused(settings)
        async with connected(server.settings(**login)) as connection:
            assert not connection.is_encrypted


async def test_a_creds_file_of_the_account_is_needed(tmp_path: Path) -> None:
    account, other = new_account(), new_account()
    with nats_server(tmp_path / "data", more=account.config) as server:

        def settings(text: str) -> ClusterSettings:
            (tmp_path / "node.creds").write_text(text)
            return server.settings(credentials=str(tmp_path / "node.creds"))

        valid = settings(account.creds)
        async with connected(valid) as connection:
            assert (await prepare_streams(JetStream(connection), valid)).formats.shards == 1
        assert "rejects this node; check user and passwordFile" in await _refused(settings(other.creds))
        assert "rejects this node" in await _refused(server.settings())
        assert "node.creds' is not a .creds file" in await _refused(settings("nonsense"))
    assert "credentials file '/missing' does not exist" in await _refused(
        server.settings(credentials="/missing")
    )
