"""HTML pages become readable Markdown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.coder.tools.html_markdown import html_to_markdown


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one\n  two</p><p>three</p>", "one two\n\nthree"),
        ("<h1>Top</h1>text<h3>Sub <em>title</em></h3>", "# Top\n\ntext\n\n### Sub *title*"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<ul><li>a<li>b<ul><li>c</ul></li><li>d</ul>after", "- a\n- b\n  - c\n- d\n\nafter"),
        ("<ol><li>a</li><li><p>b</p></li></ol>", "1. a\n2. b"),
        (
            "<a href='/x?y=1&amp;z'>link</a> <a href='#here'>here</a> <a>no</a>",
            "[link](https://e.org/x?y=1&z) here no",
        ),
        ("<a href='javascript:alert(1)'>click</a>", "click"),
        ("<b>bold </b>and <code>code</code> &lt;tag&gt; &amp;amp;", "**bold** and `code` <tag> &amp;"),
        ("<pre>\n  keep\n    this <b>as</b> it is\n</pre>", "```\n  keep\n    this as it is\n```"),
        ("<pre>```</pre>", "````\n```\n````"),
        ("<blockquote><p>one</p><p>two</p></blockquote>x", "> one\n>\n> two\n\nx"),
        ("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>", "a | b\n1 | 2"),
        ("<script>if (a < b) { alert('x') }</script>text<style>p { }</style>", "text"),
        ("<svg><title>icon</title><path d=''/></svg>text", "text"),
        ("<img alt='a cat' src=x> <img src=y>", "![a cat]"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<div>a<div>b</div></div>c", "a\nb\nc"),
        ("<!-- no --><!doctype html>text &nbsp;&copy;", "text \u00a0©"),
        ("</p></ul></li></blockquote></a></pre>text</div>", "text"),
        ("", ""),
    ],
)
def test_html_becomes_markdown(html: str, text: str) -> None:
    assert html_to_markdown(html, "https://e.org/dir/page") == text


def test_title_is_the_heading_and_occurs_once() -> None:
    assert (
        html_to_markdown("<head><title>A\n page</title></head><body>x", "https://e.org/") == "# A page\n\nx"
    )
    assert html_to_markdown(
        "<html><head><title>A</title><meta name=x><body>no end of the head", "https://e.org/"
    ) == ("# A\n\nno end of the head")
    assert html_to_markdown("<title>Same</title><h1>Same</h1>x", "https://e.org/") == "# Same\n\nx"


tags = st.sampled_from(
    [
        "p",
        "div",
        "h1",
        "ul",
        "ol",
        "li",
        "a",
        "b",
        "pre",
        "blockquote",
        "table",
        "tr",
        "td",
        "br",
        "script",
        "title",
        "code",
    ]
)
pieces = st.one_of(
    tags.map(lambda tag: f"<{tag}>"),
    tags.map(lambda tag: f"</{tag}>"),
    tags.map(lambda tag: f"<{tag} href='x' alt=y"),
    st.text(max_size=5),
    st.sampled_from(["<!--", "-->", "<![CDATA[", "]]>", "<?", "&#x41;", "&", "<", ">", "<!", "\r\n"]),
)


@settings(deadline=None)
@given(st.lists(pieces, max_size=30).map("".join))
def test_any_html_becomes_text_without_an_error(html: str) -> None:
    assert isinstance(html_to_markdown(html, "https://e.org/"), str)
