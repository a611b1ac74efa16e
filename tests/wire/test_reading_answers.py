"""A call always settles, also when the caller's own reading of the answer fails."""

import asyncio

import pytest

from accord.testing.wire import raw_pair
from accord.wire.connection import Connection


async def test_whatever_the_reading_raises_reaches_the_caller_and_the_connection_goes_on():
    ours, peer = raw_pair()
    connection = Connection(ours, requests={}, notifications={})
    connection.start()

    def broken(_raw):
        raise ZeroDivisionError

    calling = asyncio.create_task(connection.request("x", {}, read=broken))
    also = asyncio.create_task(connection.request("y", {}, read=bytes))
    first, second = await peer.next("x"), await peer.next("y")
    peer.reply(first, {})
    peer.reply(second, {})
    with pytest.raises(ZeroDivisionError):
        await calling
    assert await also == b"{}"
    await connection.aclose()
