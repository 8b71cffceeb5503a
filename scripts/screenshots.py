"""Takes the pictures of docs/img in a real browser, of pages of the demonstration.

`make screenshots` runs this. The demonstration is the same at every run, so a picture changes only
when its page does.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "web"))

from browser import DESKTOP, PHONE, Scheme, browser, served, visiting  # noqa: E402
from vkbench_db.ask.sql import readonly  # noqa: E402

IMAGES = ROOT / "docs" / "img"
LAST_NIGHT = "2026-11-01"
DRAWN_MS = 700  # after which plots stand still
DEVICE = "SELECT min(device) FROM v_series WHERE device_name LIKE 'NVIDIA%'"
SERIES = f"""
    SELECT min(series) FROM v_regressions
    WHERE direction = 'slower' AND state = 'open' AND metric = 'hot' AND device = ({DEVICE})
"""
REGRESSION = "SELECT max(regression) FROM v_regressions WHERE direction = 'slower'"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A page, and how it is looked at; `{}` in its path is what the query finds."""

    name: str
    path: str
    query: str = ""
    size: tuple[int, int] = DESKTOP
    scheme: Scheme = "light"


PICTURES = (
    Picture(name="heatmap", path="/heatmap?device={}&show=roof", query=DEVICE),
    Picture(name="series", path="/series/{}", query=SERIES),
    Picture(name="regression", path="/regressions/{}", query=REGRESSION, scheme="dark"),
    Picture(name="roofline", path="/roofline?device={}", query=DEVICE),
    Picture(name="regressions-phone", path="/regressions", size=PHONE, scheme="dark"),
)


def main() -> None:
    """Take every picture."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "demonstration.db")
        _fill(database)
        with browser() as started, served(database) as origin:
            for picture in PICTURES:
                path = picture.path.format(_asked(database, picture.query))
                with visiting(started, origin, size=picture.size, scheme=picture.scheme) as visit:
                    page = visit.open(path)
                    page.wait_for_timeout(DRAWN_MS)
                    page.screenshot(path=IMAGES / f"{picture.name}.png")
                print(f"docs/img/{picture.name}.png: {path}")


def _fill(database: Path) -> None:
    command = Path(sys.prefix, "bin", "vkbench")
    options = ["--no-serve", "--until", LAST_NIGHT, "--database", str(database)]
    subprocess.run([str(command), "demo", *options], check=True)


def _asked(database: Path, query: str) -> object:
    if not query:
        return ""
    _, rows = readonly.query(f"sqlite:///{database}", query)
    return rows[0][0]


if __name__ == "__main__":
    main()
