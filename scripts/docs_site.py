"""What `make docs` adds to the pages in docs/: reference pages from the code, and links that hold.

MkDocs calls `on_files`, `on_page_markdown` and `on_page_content`. The search finds no figures.
`python scripts/docs_site.py NAME` prints a page.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path, PurePosixPath
from typing import Any

import typer
from mkdocs.structure.files import File, Files

from vkbench.settings import PREFIX, Settings
from vkbench.words.markdown import table
from vkbench_cli.main import load
from vkbench_cli.table import COMMANDS
from vkbench_shaders.catalogue import KERNELS

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 80
_FIGURES = re.compile(r"<(table|h[2-6])\b")
_LINK = re.compile(r"\[([^\]]*)\]\(([^)]+)\)")
_FIELD = re.compile(r"^    (\w+): .*?(?:  # (.*))?$", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from the code."""
    for name, made in PAGES.items():
        files.append(File.generated(config, name, content=made()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name what lies outside of docs/ instead of linking to it: the site has no such page."""
    here = PurePosixPath(page.file.src_uri).parent
    return _LINK.sub(lambda found: _held(found, here), markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Keep the figures of a page of results out of the search; its introduction stays in."""
    if not page.file.src_uri.startswith("results/"):
        return html
    return _FIGURES.sub(r'<\1 data-search-exclude="figures"', html)


def _held(link: re.Match[str], here: PurePosixPath) -> str:
    words, target = link[1], link[2]
    if re.match(r"\w+:|#", target):
        return link[0]
    path, hash_, anchor = target.partition("#")
    inside = os.path.normpath(here / path)
    if inside.startswith(".."):
        return words if words.startswith("`") else f"{words} (`{inside.removeprefix('../')}`)"
    if path.endswith("/"):
        return f"[{words}]({path}index.md{hash_}{anchor})"
    return link[0]


def commands() -> str:
    """Every command with its help."""
    question = "Which commands are there, and which options does each take?"
    parts = ["# Commands", "", f"{question} This is what `vkbench COMMAND --help` says.", ""]
    for row in COMMANDS:
        parts += _command(load(row), ("vkbench", row.name))
    return "\n".join(parts)


def _command(command: Any, path: Sequence[str]) -> Iterator[str]:
    name = " ".join(path)
    info = {"info_name": name, "terminal_width": COLUMNS, "max_content_width": COLUMNS}
    context = typer.Context(command, **info)
    yield from (f"{'#' * len(path)} `{name}`", "", "```text")
    yield from (command.get_help(context).rstrip(), "```", "")
    for each in getattr(command, "commands", {}).values():
        yield from _command(each, (*path, each.name))


def settings() -> str:
    """Every variable, with its default."""
    notes = dict(_FIELD.findall(inspect.getsource(Settings)))
    rows = [
        [f"`{PREFIX}{each.name.upper()}`", notes[each.name], _default(each.default)]
        for each in fields(Settings)
    ]
    question = "Which environment variables does vkbench read, and what is each by default?"
    head = f"# Settings\n\n{question}\n\n"
    return head + table(["variable", "what it says", "default"], rows, most=len(rows)) + "\n"


def _default(value: object) -> str:
    return f"`{value}`" if isinstance(value, str | Path | int | float) and str(value) else ""


def kernels() -> str:
    """Every kernel by its group."""
    question = "Which kernels does the catalogue have, and by which variants?"
    parts = ["# Kernels", "", f"{question} `vkbench kernels NAME` says more of each.", ""]
    for group in dict.fromkeys(kernel.group for kernel in KERNELS):
        rows = [
            [
                f"`{kernel.name}`",
                kernel.description,
                ", ".join(variant.name for variant in kernel.variants),
            ]
            for kernel in KERNELS
            if kernel.group == group
        ]
        parts += [
            f"## {group}",
            "",
            table(["kernel", "what it does", "variants"], rows, most=len(rows)),
            "",
        ]
    return "\n".join(parts)


def api() -> str:
    """Every address of the read API, from its OpenAPI description."""
    from vkbench_web.app import application
    from vkbench_web.lab import Lab

    described = application(Lab(Settings(host="here"))).openapi()
    question = "Which addresses does the API have, and which parameters do they take?"
    head = f"# API\n\n{question} `/api/openapi.json` of `vkbench web` says it in OpenAPI.\n"
    parts = [head]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parts += [f"## `{method.upper()} {path}`", "", _said(operation), ""]
            rows = [
                [f"`{each['name']}`", each["in"], each.get("description", "")]
                for each in operation.get("parameters", ())
            ]
            parts += [table(["parameter", "in", "what it is"], rows), ""] if rows else []
    return "\n".join(parts)


def _said(operation: Mapping[str, Any]) -> str:
    return str(operation.get("description") or operation.get("summary", ""))


def architecture() -> str:
    """ARCHITECTURE.md, as a page of the site."""
    text = re.sub(r"\]\((?!docs/|#)", "](../", (ROOT / "ARCHITECTURE.md").read_text())
    return text.replace("](docs/", "](")


def decisions() -> str:
    """The titles of docs/decisions."""
    pages = sorted((ROOT / "docs/decisions").glob("*.md"))
    titles = [(page.name, page.read_text().partition("\n")[0].lstrip("# ")) for page in pages]
    head = "# Decisions\n\nWhy are things as they are, and which other ways were weighed?\n\n"
    return head + "".join(f"- [{title}]({name})\n" for name, title in titles)


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/commands.md": commands,
    "reference/settings.md": settings,
    "reference/kernels.md": kernels,
    "reference/api.md": api,
    "architecture.md": architecture,
    "decisions/index.md": decisions,
}


if __name__ == "__main__":
    print(PAGES[sys.argv[1]]())
