"""The link and its QR code."""

import re

import segno

from accord.gateway.access.pairing import link, qr_code

LINK = "http://127.0.0.1:8765/#token=acc_k3v9m2qd_" + "aB3_-" * 8 + "abc"


def test_a_link_holds_the_token_where_browsers_do_not_send_it() -> None:
    assert link("https://home.example/", "acc_x") == link("https://home.example", "acc_x")
    assert link("https://home.example", "acc_x") == "https://home.example/#token=acc_x"


def test_the_code_on_the_terminal_is_the_code() -> None:
    lines = qr_code(LINK, 80)
    assert lines is not None
    shown = [re.fullmatch("\x1b\\[38;5;16;48;5;231m(.*)\x1b\\[0m", line) for line in lines]
    rows: list[list[bool]] = []
    for line in shown:
        assert line is not None, "each line has its own colours"
        rows.append([char in "▀█" for char in line[1]])
        rows.append([char in "▄█" for char in line[1]])
    code = segno.make(LINK, error="l", micro=False)
    expected = [[bool(dark) for dark in row] for row in code.matrix_iter(scale=1, border=2)]
    assert rows[: len(expected)] == expected
    assert not any(any(row) for row in rows[len(expected) :])


def test_where_it_does_not_fit_there_is_none() -> None:
    lines = qr_code(LINK, 80)
    assert lines is not None
    width = len(lines[0].split("m", 1)[1].split("\x1b")[0])
    assert qr_code(LINK, width) is not None
    assert qr_code(LINK, width - 1) is None
