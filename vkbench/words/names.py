"""Lookup by name or glob, ignoring case; an unknown name raises with the nearest known ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from vkbench.errors import UnknownName, UsageError

MOST_TOLD = 12  # names that an error message lists
_SHA_SHOWN = 12  # digits of a hash
LEAST_DIGITS = 4  # of a hash that mean it: fewer may be a number, or a slip


def pick(typed: str, known: Iterable[str], what: str) -> str:
    """The known name that equals `asked` whatever its case; UnknownName names the nearest.

    Where none is near it names all, unless they are many.
    """
    known = list(known)
    if typed in known:
        return typed
    for name in known:
        if name.casefold() == typed.casefold():
            return name
    few = tuple(known) if len(known) <= MOST_TOLD else ()
    raise UnknownName(what, typed, nearest(typed, known), few)


def matching(pattern: str, known: Iterable[str], what: str) -> list[str]:
    """All known names that fit a glob (or are it), in their own order; UnknownName if none does."""
    known = list(known)
    fitting = [name for name in known if fnmatchcase(name.casefold(), pattern.casefold())]
    if not fitting:
        raise UnknownName(what, pattern, nearest(pattern, known))
    return fitting


def pick_sha(
    typed: str,
    known: Mapping[str, str],
    what: str,
    otherwise: Callable[[str], Sequence[str]] = lambda typed: (),
) -> str:
    """The one hash that a word means, of hashes with their names, the newest last.

    A name counts before hashes that begin so, with four digits or more, and these before what
    `otherwise` finds.
    UnknownName where there is none, UsageError where there are several.
    """
    word = typed.strip()
    shas: Sequence[str] = [sha for sha, name in known.items() if word and name == word]
    shas = shas or [sha for sha in known if _begins(sha, word)]
    shas = shas or (otherwise(word) if word else ())
    if len(shas) > 1:
        some = " and ".join(sha[:_SHA_SHOWN] for sha in shas[:2])
        raise UsageError(f"several {what}s are called '{word}': give a hash, {some}")
    if not shas:
        names = [name for name in known.values() if name]
        raise UnknownName(what, typed, nearest(word, names), tuple(names[-3:]))
    return shas[0]


def _begins(sha: str, word: str) -> bool:
    return len(word) >= LEAST_DIGITS and sha.startswith(word.lower())


def nearest(typed: str, known: Sequence[str], most: int = 3) -> tuple[str, ...]:
    """Up to `most` known names that `asked` may be a mistyped form of, the likeliest first."""
    by_folded = {name.casefold(): name for name in known}
    close = get_close_matches(typed.casefold(), by_folded, n=most, cutoff=0.5)
    return tuple(by_folded[name] for name in close)


def join_items(items: Sequence[str]) -> str:
    """Texts in a row, between commas; between semicolons where a comma is part of one of them."""
    return ("; " if any(", " in item for item in items) else ", ").join(items)
