"""The order of posts: calls and responses have a queue each, and wait for each other for a short time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from accord.testing.fake_clock import FakeClock, settle
from accord.wire.remote.post_queue import MAX_ORDER_DELAY, PostQueue, QueuedPost, read_message

CALL = b'{"jsonrpc":"2.0","id":1,"method":"a"}'
RESPONSE = b'{"jsonrpc":"2.0","id":7,"result":{}}'


class Posts:
    """Records the posted frames. The ones in `held` are not done until `release`."""

    def __init__(self, *held: bytes) -> None:
        self.frames: list[bytes] = []
        self._held = held
        self._released = asyncio.Event()

    async def __call__(self, post: QueuedPost) -> None:
        self.frames.append(post.frame)
        if post.frame in self._held:
            await self._released.wait()

    def release(self) -> None:
        self._released.set()


@asynccontextmanager
async def post_queue(posts: Posts, *frames: bytes) -> AsyncGenerator[FakeClock]:
    clock = FakeClock()
    queue = PostQueue(clock, posts)
    for frame in frames:
        queue.add(frame)
    queue.start()
    await settle()
    yield clock
    posts.release()
    await queue.wait_all_posted()
    await queue.stop()


@pytest.mark.parametrize(("first", "second"), [(CALL, RESPONSE), (RESPONSE, CALL)])
async def test_a_post_waits_for_an_earlier_one_of_the_other_queue_but_not_long(
    first: bytes, second: bytes
) -> None:
    posts = Posts(first)
    async with post_queue(posts, first, second) as clock:
        assert posts.frames == [first]
        await clock.advance(MAX_ORDER_DELAY / 2)
        assert posts.frames == [first]
        await clock.advance(MAX_ORDER_DELAY)
        assert posts.frames == [first, second]


async def test_posts_keep_their_order_while_each_is_done_soon() -> None:
    posts = Posts()
    frames = [CALL, RESPONSE, CALL, CALL, RESPONSE]
    async with post_queue(posts, *frames):
        assert posts.frames == frames


async def test_all_is_posted_only_when_both_queues_are_empty() -> None:
    posts = Posts(RESPONSE)
    queue = PostQueue(FakeClock(), posts)
    queue.add(RESPONSE)
    queue.start()
    await settle()
    all_posted = asyncio.ensure_future(queue.wait_all_posted())
    await settle()
    assert not all_posted.done()
    posts.release()
    await all_posted
    await queue.stop()


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (CALL, "request"),
        (RESPONSE, "response"),
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}', "response"),
        (b'{"jsonrpc":"2.0","method":"a"}', "notification"),
        (b'{"jsonrpc":"2.0","id":7}', "other"),
        (b'{"jsonrpc":"2.0","result":{}}', "other"),
        (b"[]", "other"),
        (b"hello", "other"),
    ],
)
def test_the_kind_of_a_message(frame: bytes, kind: str) -> None:
    assert read_message(frame).kind == kind
