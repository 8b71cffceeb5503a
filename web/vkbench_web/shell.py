"""Pages as HTML: every page has the same head, navigation and foot."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse

import vkbench
from vkbench.errors import VkbenchError
from vkbench.words import units
from vkbench_web.access.visitor import Visitor, by_cookie
from vkbench_web.lab import Lab

NAVIGATION = (
    ("Status", (("/", "Home"), ("/fleet", "Fleet"), ("/regressions", "Regressions"))),
    (
        "Results",
        (
            *(("/results", "Latest"), ("/runs", "Runs"), ("/series", "Series")),
            *(("/kernels", "Kernels"), ("/programs", "Programs")),
        ),
    ),
    ("Analyse", (("/heatmap", "Heat map"), ("/compare", "Compare"), ("/roofline", "Roofline"))),
    ("Query", (("/query", "SQL"),)),
)
_LONGEST = 120  # characters of a name that a page of many shows
BREAKS = 32  # characters of a text above which its names may break
_JOINTS = re.compile(r"(?<=[/_])(?=\w)")
_AGES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def lab_of(request: Request) -> Lab:
    """The lab whose pages these are."""
    lab: Lab = request.app.state.lab
    return lab


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page, or with `?part=NAME` that block of it, which replaces itself in the browser."""
    part = request.query_params.get("part", "")
    context: dict[str, Any] = {
        "request": request,
        "navigation": NAVIGATION,
        "version": vkbench.__version__,
    }
    context |= {"now": lab_of(request).now(), "demonstration": _is_demonstration(lab_of(request))}
    context["visitor"] = _visitor(request)
    made = _templates().get_template(template)
    if part and part in made.blocks:
        own = made.new_context(context | values)
        next(made.root_render_func(own), "")  # up to the first word: the imports of the template
        return HTMLResponse("".join(made.blocks[part](own)), status)
    return HTMLResponse(made.render(context | values), status)


def _visitor(request: Request) -> Visitor | None:
    """Who signed in; None if nobody did, or if the database cannot be reached."""
    try:
        return by_cookie(request)
    except VkbenchError:
        return None


def render_alone(template: str, **values: Any) -> str:
    """Render a template alone, without a page's head and foot."""
    return _templates().get_template(template).render(values)


def _is_demonstration(lab: Lab) -> bool:
    """Whether results are made up; False if the database cannot be reached."""
    try:
        return lab.is_demonstration()
    except VkbenchError:
        return False


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("vkbench_web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # no look at each file for each page
    )
    environment.filters |= {
        "age": age,
        "cut": cut,
        "name_parts": split_names,
        "moment": moment,
        "percent": percent,
        "rate": rate,
        "quoted": lambda text: quote(str(text), safe=""),
        "seconds": seconds,
        "significant": significant,
    }
    environment.globals["asset"] = asset
    return environment


@cache
def asset(name: str) -> str:
    """The URL of a file in static/, which changes with the file, so that browsers may keep it."""
    from hashlib import sha256

    data = files("vkbench_web").joinpath("static", name).read_bytes()
    return f"/static/{name}?{sha256(data).hexdigest()[:12]}"


def split_names(text: str) -> list[str]:
    """The parts of a long text whose names may break after `/` and `_`; a short one is whole."""
    return _JOINTS.split(text) if len(text) > BREAKS else [text]


def age(seconds: float | None) -> str:
    """An age in the largest whole unit: 3 min, 2 h."""
    if seconds is None:
        return "never"
    for size, unit in _AGES:
        if seconds >= size:
            return f"{int(seconds / size)} {unit}"
    return "now"


def cut(text: str) -> str:
    """A name that somebody else chose, at most so long that a page of many stays small."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def moment(at: float | None) -> str:
    """A moment in UTC, to the minute."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def percent(fraction: float | None) -> str:
    """A share as people read it: 12.3%"""
    return "" if fraction is None else f"{fraction * 100:.1f}%"


def rate(value: float | None, unit: str) -> str:
    """A rate as people read it: 12.3 GB/s"""
    if value is None:
        return ""
    scale, (cell,) = units.rate_column([value], unit)
    return f"{cell} {scale}"


def seconds(value: float | None) -> str:
    """A time as people read it: 12.3 us"""
    if value is None:
        return ""
    unit, (cell,) = units.seconds_column([value])
    return f"{cell} {unit}"


def significant(value: float | None) -> str:
    """A bare number with three significant figures."""
    return "" if value is None else units.significant(value, 3)
