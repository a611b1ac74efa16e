"""Properties of edits: only the matched text is replaced, and encoding and line endings stay."""

import asyncio
import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.coder.tools.harness import ToolHarness
from tests.repetitions import repetitions

from accord.coder.files.text_document import TextEncoding, decode, line_end_of, normalize_line_ends
from accord.coder.files.text_match import explain_mismatch, find_all, find_loosely, replace_matches

# Few characters, so that matches, overlaps and mixed line endings are frequent.
texts = st.text(st.sampled_from("ab \t\n"), max_size=40)
mixed = st.lists(st.sampled_from(["a", "b", " ", "\n", "\r\n", "\r", "ab"]), max_size=25).map("".join)
search_texts = st.text(st.sampled_from("ab \n"), min_size=1, max_size=4)
any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)


@settings(deadline=None)
@given(texts, search_texts, texts)
def test_edit_of_plain_text_equals_str_replace(text: str, old: str, new: str) -> None:
    matches = find_all(text, old)
    assert len(matches) == text.count(old)
    assert replace_matches(text, matches, new) == text.replace(old, new)
    assert replace_matches(text, matches[:1], new) == text.replace(old, new, 1)


@settings(deadline=None)
@given(any_text, st.data())
def test_any_piece_of_a_text_is_found_and_only_it_is_replaced(text: str, data: st.DataObject) -> None:
    assume(text)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    matches = find_all(text, text[start:end])
    assert matches
    for match in matches:
        assert normalize_line_ends(text[match.start : match.end]) == normalize_line_ends(text[start:end])
    edited = replace_matches(text, matches[:1], "XYZ")
    assert edited == text[: matches[0].start] + "XYZ" + text[matches[0].end :]


@settings(deadline=None)
@given(mixed, search_texts, texts)
def test_both_line_endings_match_and_other_text_stays(text: str, old: str, new: str) -> None:
    matches = find_all(text, old)
    assert len(matches) == normalize_line_ends(text).count(old)
    edited = replace_matches(text, matches, new)
    assert normalize_line_ends(edited) == normalize_line_ends(text).replace(
        old, normalize_line_ends(new)
    ) or "\r" in text.replace("\r\n", "")
    pieces = [text[before.end : after.start] for before, after in pairwise(matches)]
    if matches:
        assert edited.startswith(text[: matches[0].start])
        assert edited.endswith(text[matches[-1].end :])
        assert all(piece in edited for piece in pieces)


@settings(deadline=None)
@given(texts, search_texts, texts)
@example("a\nb", "a", "a\n\na")
def test_crlf_text_keeps_its_line_endings(text: str, old: str, new: str) -> None:
    crlf_text = text.replace("\n", "\r\n")
    edited = replace_matches(crlf_text, find_all(crlf_text, old), new)
    assert normalize_line_ends(edited) == text.replace(old, new)
    if line_end_of(crlf_text) == "\r\n":
        assert line_end_of(edited) in ("\r\n", None)
        assert "\n" not in edited.replace("\r\n", "")


encodings = st.sampled_from(
    [
        TextEncoding(),
        TextEncoding(has_bom=True),
        TextEncoding("utf-16-le", True),
        TextEncoding("utf-16-be", True),
        TextEncoding("latin-1"),
        TextEncoding("cp1252"),
    ]
)


@settings(deadline=None)
@given(encodings, any_text)
def test_decoded_text_encodes_to_the_same_bytes(encoding: TextEncoding, text: str) -> None:
    try:
        data = encoding.encode(text)
    except UnicodeEncodeError:
        return
    decoded = decode(data)
    if decoded is not None:
        assert decoded[1].encode(decoded[0]) == data
    if encoding.name.startswith("utf") and (encoding.has_bom or not text.startswith("\ufeff")):
        assert decoded == (text, encoding) or decode(data) is None
        assert decoded is not None or data.startswith((b"%PDF-", b"PK", b"BZh", b"\xff\xfe\x00\x00"))


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_round_trip_or_are_not_text(data: bytes) -> None:
    decoded = decode(data)
    assert decoded is None or decoded[1].encode(decoded[0]) == data


@settings(max_examples=repetitions(120), deadline=None)
@given(encodings, mixed, search_texts, texts, st.booleans())
def test_edit_on_disk_replaces_the_text_or_leaves_the_file_alone(
    encoding: TextEncoding, text: str, old: str, new: str, everywhere: bool
) -> None:
    async def edit(path: Path) -> bool:
        harness = ToolHarness(path.parent)
        await harness.use("read_file", path="file")
        outcome = await harness.use(
            "edit_file", path="file", old_text=old, new_text=new, replace_all=everywhere
        )
        return not outcome.failed

    before = encoding.encode(text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(before)
        path.chmod(0o751)
        done = asyncio.run(edit(path))
        after = path.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o751
        assert [entry.name for entry in Path(folder).iterdir()] == ["file"]
    count = normalize_line_ends(text).count(old)
    if not done:
        assert after == before
        assert not count or count > 1 or normalize_line_ends(old) == normalize_line_ends(new)
    elif count:
        assert count == 1 or everywhere
        matches = find_all(text, old)
        assert after == encoding.encode(replace_matches(text, matches, new))
    else:
        loose = find_loosely(text, old, new)
        assert loose is not None
        assert text[loose.match.start : loose.match.end].split() == old.split()
        assert after == encoding.encode(replace_matches(text, [loose.match], loose.replacement))


@settings(deadline=None, max_examples=60)
@given(mixed | any_text, st.text(max_size=30))
def test_missing_text_always_has_a_bounded_reason(text: str, old: str) -> None:
    assume(not find_all(text, old or "x"))
    reason = explain_mismatch(text, old or "x")
    assert reason
    assert len(reason) < 5000
