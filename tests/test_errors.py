"""The error tree: what a handler may raise, and what it may not."""

import pytest

from accord.errors import InternalError, NotFound, RpcError, UsageError


def test_an_error_answer_has_a_text_and_perhaps_a_code_and_data() -> None:
    error = RpcError("out of paper", {"tray": 2}, code=7)
    assert (error.code, error.message, error.data) == (7, "out of paper", {"tray": 2})
    assert (InternalError().code, InternalError().message) == (-32603, "Internal error")
    assert isinstance(RpcError.of(-32002, "no such file"), NotFound)


@pytest.mark.rule(27, 28)
def test_a_code_in_the_place_of_the_text_is_refused_with_the_right_way_to_say_it() -> None:
    with pytest.raises(UsageError, match=r"an RpcError begins with its text: RpcError\('why', code=-32000\)"):
        RpcError(-32000, "out of paper")  # pyright: ignore[reportArgumentType]
