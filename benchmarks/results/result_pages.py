"""Writes the pages of docs/results from the exports beside them; with --check says which differ.

An export is made on the GPU that its page names, and compressed by its name:
`vkbench run --suite quant-perf --mode performance --export h100-quant-perf.jsonl.xz`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SCRIPTS = Path(__file__).parent
RESULTS = SCRIPTS.parents[1] / "docs" / "results"
H200_BUILDS = ("h200-ggml-builds.jsonl.xz", "h200-ggml-builds-pairs.jsonl.xz")
TORCH = ("torch", "h100-torch.jsonl.xz", "h100-torch-products.jsonl.xz")
PAGES: Mapping[str, Sequence[str]] = {  # what makes a page: a script of this folder, and its words
    "h100-quant-perf.md": ("quant_table.py", "h100-quant-perf.jsonl.xz"),
    "h100-transformer-perf.md": ("transformer_table.py", "h100-transformer-perf.jsonl.xz"),
    "h100-models.md": ("models_table.py", "h100-models.jsonl.xz"),
    "h100-ggml.md": ("peers_table.py", "ggml", "h100-ggml.jsonl.xz"),
    "h200-ggml.md": ("peers_table.py", "ggml", "h200-ggml.jsonl.xz"),
    "h200-ggml-builds.md": ("builds_table.py", *H200_BUILDS),
    "h100-torch.md": ("peers_table.py", *TORCH),
    "../../plans/recorded.csv": ("recorded_table.py", *TORCH),
    "pages.md": ("pages_table.py", "pages-postgresql.csv", "pages-sqlite.csv"),
}


def make_page(name: str) -> str:
    """The text of a page, as its exports say it."""
    script, *words = PAGES[name]
    command = [sys.executable, str(SCRIPTS / script), *words]
    made = subprocess.run(command, cwd=RESULTS, capture_output=True, text=True, check=True)
    return made.stdout


def main(arguments: Sequence[str]) -> int:
    differing = []
    for name in PAGES:
        text, page = make_page(name), RESULTS / name
        if not page.exists() or page.read_text() != text:
            differing.append(name)
            if "--check" not in arguments:
                page.write_text(text)
    for name in differing:
        print(f"docs/results/{name} {'differs' if '--check' in arguments else 'is written anew'}")
    return 1 if differing and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
