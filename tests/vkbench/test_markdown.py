"""Markdown that says what was meant, within what its readers take."""

from __future__ import annotations

import pytest

from vkbench.words import markdown


def test_a_table_has_a_rule_and_counts_what_it_leaves_out() -> None:
    rows = [[f"case {n}", str(n)] for n in range(5)]
    assert markdown.table(["what", "n"], rows, right=(1,), most=2) == (
        "| what | n |\n| --- | --: |\n| case 0 | 0 |\n| case 1 | 1 |\n\n… and 3 more\n"
    )
    assert "more" not in markdown.table(["what", "n"], rows, most=5)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a\\|b"),
        ("two\nlines", "two lines"),
        ("<img src=x>", "\\<img src=x\\>"),
        ("mul_mat *", "mul\\_mat \\*"),
        ("@everybody", "@\u200beverybody"),
        ("#1", "#\u200b1"),
    ],
)
def test_foreign_text_stays_text(text: str, shown: str) -> None:
    assert markdown.escape_text(text) == shown


def test_code_cannot_be_left() -> None:
    assert markdown.code("a`b|c") == "`a'b\\|c`"
    assert markdown.code("") == ""


@pytest.mark.parametrize("most", [200, 1000, 60_000])
def test_a_summary_is_never_too_long(most: int) -> None:
    part = markdown.table(["n"], [[str(n)] for n in range(5000)], most=5000)
    text = markdown.summary("A run", ["first line", part, "last line"], most=most)
    assert len(text) <= most
    assert text.startswith("### A run\n\nfirst line\n")
    is_whole = most > len(part)
    assert ("last line" in text) is is_whole
    assert ("cut here" in text) is not is_whole
    assert all(line.endswith("|") for line in text.splitlines() if line.startswith("|"))
