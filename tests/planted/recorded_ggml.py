#!/usr/bin/env python3
"""Stands in for llama.cpp's test-backend-ops: prints what the real one printed on lavapipe.

    recorded_ggml.py test|perf|support [...]

Its folder `answers` beside it says what it answers to `test` and `perf`, and under which number
and code it has its operation.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(sys.argv[0]).parent


def main() -> int:
    answers = json.loads((HERE / "answers.json").read_text())
    mode, *options = sys.argv[1:]
    given = dict(zip(options[::2], options[1::2], strict=True))
    if mode != "support":
        text = Path(answers[mode]).read_text()
    elif "--test-file" in given:
        lines = Path(given["--test-file"]).read_text().splitlines()
        text = "".join(row(line, given["-o"]) for line in lines if is_known(line, answers))
    else:
        text = Path(answers["backends"]).read_text()
    with (HERE / "asked").open("a") as asked:
        asked.write(f"{mode}\n")
    print(text)
    return int("'0', 'test failed'" in text)


def is_known(line: str, answers: dict[str, str]) -> bool:
    """Whether a test is of the operation that this one has, by its numbers."""
    words = line.split()
    code = words[7] if words[6] != "0" else ""
    return [words[0], code] == [answers["number"], answers["code"]]


def row(line: str, op: str) -> str:
    name = line.split()[-1]
    return (
        "INSERT INTO test_backend_ops (op_name, op_params, test_mode, supported) "
        f"VALUES ('{op}', 'name={name},type=f32', 'support', '1');\n"
    )


if __name__ == "__main__":
    sys.exit(main())
