"""/sign-in and /sign-out: a token goes into a cookie that no script can read, and out of it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from vkbench_web.access.texts import Form
from vkbench_web.access.visitor import COOKIE, by_cookie, recognise_visitor, require_own_form
from vkbench_web.shell import lab_of, page

router = APIRouter()
MOST_SECONDS = 30 * 86_400  # a browser forgets the token then, or when it expires
HOME = "/regressions"


@router.get("/sign-in", include_in_schema=False)
def sign_in(request: Request) -> Response:
    """The page with the form to sign in."""
    return page(request, "sign_in.html", next=_local(request.query_params.get("next", "")))


@router.post("/sign-in", include_in_schema=False)
def enter(request: Request, form: Form) -> Response:
    """Keep a token in the browser, if it is valid."""
    goal = _local(form.get("next", ""))
    visitor = recognise_visitor(request, form.get("token", "").strip())
    if visitor is None:
        return page(request, "sign_in.html", 401, next=goal, refused=True)
    expires = visitor.token.expires_at
    left = MOST_SECONDS if expires is None else min(MOST_SECONDS, expires - lab_of(request).now())
    answer = RedirectResponse(goal, 303)
    answer.set_cookie(
        COOKIE,
        visitor.secret,
        max_age=int(left),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/sign-out", include_in_schema=False)
def leave(request: Request, form: Form) -> Response:
    """Sign out: forget the token, and go to the devices."""
    require_own_form(by_cookie(request), form)
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _local(path: str) -> str:
    """The path if it is one of this site, and otherwise that of the inbox."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else HOME
