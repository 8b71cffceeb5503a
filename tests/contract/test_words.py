"""The words of the sources: names that say what is done to what, docstrings that stand alone.

Three counts, which may only fall: rename and rewrite where you work, and lower the number here.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHIPPED = SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

# Today's counts. Each may be lowered, never raised.
MOST_BARE_PARTICIPLES = 3
MOST_SHORT_DOCSTRINGS = 0
MOST_FILLERS_A_THOUSAND_LINES = 4.9

# A function's name is bare when, without its underscores, it is one word that says what the
# result is like and not what is done to what: a word of -ed, an irregular participle, or an
# adjective. The words are listed, and no dictionary decides, so that a count changes only with the
# sources. Words of -ing are not looked at, since most of them here are nouns (timing, binding); nor
# are participles that are verbs as well (read, put, set, run); nor properties, which are read as
# values (`job.failed`).
NO_PARTICIPLES = "bed embed exceed feed need proceed red seed shed speed succeed"
IRREGULAR = """
    begun bent broken built chosen done drawn flown found given gone heard held hidden kept known
    laid left lost made meant said seen sent shown spent spoken taken told torn unheard unkept
    unread unrun untold worn written
"""
ADJECTIVES = """
    alike alive alone bare blank busy due finite fresh malformed missing nameless near new odd ours
    own plain pointless quiet silent strange theirs tight unlikely whole wrong
"""

# Names that do not say what a variable holds; counted as whole names, and as words of comments.
FILLERS = ("asked", "each", "found", "ours", "said", "told", "wanted")

Counter = Callable[[str], Iterator[str]]


@cache
def sources() -> dict[str, str]:
    """The texts of all shipped modules by their paths."""
    modules = [path for part in SHIPPED for path in sorted((ROOT / part).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text() for path in modules}


def is_bare(name: str) -> bool:
    """Whether a function's name is one word that names no object."""
    word = name.strip("_")
    if "_" in word or word in NO_PARTICIPLES.split():
        return False
    return word.endswith("ed") or word in f"{IRREGULAR} {ADJECTIVES}".split()


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is read as a value, by a decorator of that kind."""
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def bare_participles(text: str) -> Iterator[str]:
    """Line and name of each function of a module that is a bare participle or adjective."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not is_property(node):
                if is_bare(node.name):
                    yield f"{node.lineno} {node.name}"


def short_docstrings(text: str) -> Iterator[str]:
    """Line and text of each docstring of a module that has three words or fewer."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            written = ast.get_docstring(node)
            if written is not None and len(written.split()) <= 3:
                yield f"{node.body[0].lineno} {written}"


def fillers(text: str) -> Iterator[str]:
    """Line and word of each filler of a module: a whole name, or a word of a comment."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            words = [token.string.strip("_")]
        elif token.type == tokenize.COMMENT:
            words = re.findall(r"[a-z]+", token.string)
        else:
            continue
        yield from (f"{token.start[0]} {word}" for word in words if word in FILLERS)


def count_in_sources(counter: Counter) -> list[str]:
    """Path, line and word of all that a counter finds in the shipped modules."""
    return [f"{path}:{place}" for path, text in sources().items() for place in counter(text)]


def require_no_more(count: float, most: float, advice: str) -> None:
    """Fail where a count is over its number, or so far below it that the number should follow."""
    assert count <= most, f"{count}, and at most {most} may be. {advice}"
    assert count >= 0.95 * most, f"{count} are left of {most}: lower the number in test_words.py."


def test_functions_say_what_they_do_to_what() -> None:
    names = count_in_sources(bare_participles)
    advice = "Name your function by a verb and its object (time_pairs, not _timed):"
    require_no_more(len(names), MOST_BARE_PARTICIPLES, "\n".join((advice, *names)))


def test_docstrings_are_sentences_that_stand_alone() -> None:
    docstrings = count_in_sources(short_docstrings)
    advice = "Say it for a reader who sees this sentence alone (Rows of a tile., not Of a tile.):"
    require_no_more(len(docstrings), MOST_SHORT_DOCSTRINGS, "\n".join((advice, *docstrings)))


def test_variables_say_what_they_hold() -> None:
    lines = sum(text.count("\n") for text in sources().values())
    density = round(1000 * len(count_in_sources(fillers)) / lines, 1)
    advice = f"Name what your variables hold (suspicions, old_timings), not {FILLERS}."
    require_no_more(density, MOST_FILLERS_A_THOUSAND_LINES, advice)


@pytest.mark.parametrize("name", ["_timed", "asked", "found", "__chosen", "alike"])
def test_a_participle_is_bare(name: str) -> None:
    assert is_bare(name)


@pytest.mark.parametrize(
    "name", ["time_pairs", "_timed_pairs", "seed", "embed", "timing", "is_found"]
)
def test_a_name_with_an_object_is_not(name: str) -> None:
    assert not is_bare(name)


def test_the_counters_see_what_they_should() -> None:
    text = (
        '"""Of it."""\n\ndef _timed(found):  # asked for\n    """Of a tile."""\n    return found\n'
    )
    assert list(bare_participles(text)) == ["3 _timed"]
    assert list(short_docstrings(text)) == ["1 Of it.", "4 Of a tile."]
    assert list(fillers(text)) == ["3 found", "3 asked", "5 found"]
