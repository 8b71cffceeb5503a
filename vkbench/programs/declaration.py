"""What a program's declaration may say: checked whether it comes from a file or from elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from vkbench.case import check_case_of_program
from vkbench.errors import UnknownName, UsageError
from vkbench.peers import BY_NAME
from vkbench.programs.build import NoBuild, check_path
from vkbench.programs.program import ADAPTERS, BUILT_IN, DRIVER, GGML, OwnCases, Program, Recipe
from vkbench.words import names

MOST_PATTERNS: Final = 100
MOST_WORDS: Final = 100  # of a command
MOST_CASES: Final = 10_000
MOST_TEXT: Final = 1000  # characters of a description, or of a command's word
MOST_MINUTES: Final = 10_000  # a week, after which a build is ended at the latest
MOST_COMMAND: Final = 10_000  # characters of a shell's command

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_TAKEN: Final = frozenset({"auto", "all", DRIVER, *BY_NAME})


def check_program(program: Program) -> Program:
    """The program, if what it declares can be done; UsageError says in one line what cannot."""
    check_name(program.name)
    _check_text("description", program.description, MOST_TEXT)
    names.pick(program.adapter, ADAPTERS, "adapter")
    if program.adapter not in ADAPTERS:
        raise UnknownName("adapter", program.adapter, known=tuple(ADAPTERS))
    if not program.needs:
        raise UsageError("needs: name a file that every build has, by which builds are told")
    for key, patterns in (("needs", program.needs), ("takes", program.takes)):
        _check_patterns(key, patterns)
    if program.arithmetic:
        _check_text("arithmetic", program.arithmetic, MOST_TEXT)
    if program.adapter == GGML and program.run:
        raise UsageError("run: adapter ggml loads libraries and starts nothing: leave it out")
    if program.adapter != GGML:
        _check_command("run", program.run)
    if program.build:
        check_recipe(program.build)
    if program.cases:
        _check_cases(program.name, program.cases)
    return program


def check_name(name: str) -> str:
    """A name that a user's program may have: no built-in program's, no peer's."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"name: {name[:60]!a} is no program's name: give up to 40 small letters, digits and "
            "dashes, no dash first"
        )
    if name in BUILT_IN:
        raise UsageError(f"name: vkbench has a program {name} by itself: choose another")
    if name in _TAKEN:
        raise UsageError(f"name: {name} is what results of vkbench are called: choose another")
    return name


def _check_text(key: str, text: str, most: int) -> None:
    if not text.strip() or len(text) > most or not text.isprintable():
        raise UsageError(f"{key}: give one line of up to {most} characters that can be printed")


def _check_patterns(key: str, patterns: Sequence[str]) -> None:
    if len(patterns) > MOST_PATTERNS:
        raise UsageError(f"{key}: it names {len(patterns)} files; {MOST_PATTERNS} are allowed")
    for pattern in patterns:
        if "/" in pattern or not pattern.strip("*?"):
            raise UsageError(
                f"{key}: {pattern!a} is no file's name: give some of it, and no folder"
            )
        try:
            check_path(pattern)
        except NoBuild as error:
            raise UsageError(f"{key}: {error}") from error


def _check_command(key: str, words: Sequence[str]) -> None:
    """A command that starts a file of the build, or a program of the host that PATH finds."""
    if not words:
        raise UsageError(f'{key}: say what starts it, such as {key} = ["./my-bench"]')
    if len(words) > MOST_WORDS:
        raise UsageError(f"{key}: it has {len(words)} words; {MOST_WORDS} are allowed")
    for word in words:
        if len(word) > MOST_TEXT or not word.isprintable():
            raise UsageError(f"{key}: {word[:60]!a} is no word of up to {MOST_TEXT} characters")
    inside = words[0].removeprefix("./")
    if "/" in words[0] and not words[0].startswith("./"):
        raise UsageError(
            f"{key}: {words[0]!a} lies elsewhere: give ./NAME of the build, or a name that PATH has"
        )
    try:
        check_path(inside)
    except NoBuild as error:
        raise UsageError(f"{key}: {error}") from error


def check_recipe(recipe: Recipe) -> None:
    """UsageError where a command is none, or its folder is not below the checkout."""
    command = recipe.command
    if not command.strip() or len(command) > MOST_COMMAND or "\0" in command:
        raise UsageError(f"build: give a command of up to {MOST_COMMAND} characters")
    if recipe.minutes is not None and not 0 < recipe.minutes <= MOST_MINUTES:
        raise UsageError(
            f"build: minutes is {recipe.minutes:g}: give more than 0 and at most {MOST_MINUTES}"
        )
    try:
        check_path(recipe.folder) if recipe.folder != "." else None
    except NoBuild:
        raise UsageError(
            f"build: folder {recipe.folder!a} is none below the checkout, such as out/bin"
        ) from None


def _check_cases(program: str, cases: OwnCases) -> None:
    if bool(cases.names) == bool(cases.list):
        raise UsageError("cases: give either names, or list: a command that prints them")
    if cases.list:
        _check_command("list", cases.list)
    if len(cases.names) > MOST_CASES:
        raise UsageError(f"cases: it names {len(cases.names)}; {MOST_CASES} are allowed")
    for name in cases.names:
        check_case_of_program(f"{program}:{name}")
    [(name, times)] = Counter(cases.names).most_common(1) or [("", 0)]
    if times > 1:
        raise UsageError(f"cases: {name!a} is named {times} times")
