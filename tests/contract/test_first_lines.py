"""Every page of docs/ says in its first sentence which question it answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from documented import first_question

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
MOST_LETTERS = 180
LEAST_WORDS = 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_a_page_begins_with_its_question(page: Path) -> None:
    question = first_question(page.read_text())
    assert question, "below its title a page asks, in one sentence, what it answers"
    assert len(question) <= MOST_LETTERS
    assert len(question.split()) >= LEAST_WORDS


def test_no_two_pages_answer_the_same_question() -> None:
    questions = [first_question(page.read_text()) for page in PAGES]
    asked = [question for question in questions if question]
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize(
    "text",
    [
        "# Backups\n\n## SQLite\n\nHow do I copy the file?\n",
        "# Backups\n\n```console\n$ vkbench export 1\n```\n\nHow do I copy it?\n",
        "# Backups\n\nAll that matters is in the database. Is it?\n",
        "# Backups\n\nhow the file is copied?\n",
        "# Backups\n",
        "How do I copy the file?\n",
    ],
    ids=["heading", "code", "statement first", "fragment", "title alone", "no title"],
)
def test_other_beginnings_are_no_question(text: str) -> None:
    assert first_question(text) == ""


def test_a_question_may_span_lines() -> None:
    text = "# Backups\n\nHow do I copy the file\nwhile `vkbench` runs? Like this.\n\nMore.\n"
    assert first_question(text) == "How do I copy the file while `vkbench` runs?"
