"""Who asks: the token of a script in its header, or of a browser in its cookie."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.requests import Request

from vkbench.process import log
from vkbench_db.database import Transaction
from vkbench_db.upkeep import tokens
from vkbench_db.upkeep.tokens import Scope, Token
from vkbench_web.errors import Forbidden, Unauthorised
from vkbench_web.lab import Lab

COOKIE = "vkbench_token"
FIELD = "csrf"  # of every form that writes
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """A valid token, and the word by which its forms are known."""

    token: Token
    secret: str

    @property
    def name(self) -> str:
        """What is recorded beside what they do."""
        return self.token.name

    @property
    def csrf(self) -> str:
        """What their forms must hold: no other site can read the cookie that it is made from."""
        return hmac.new(self.secret.encode(), b"vkbench form", hashlib.sha256).hexdigest()

    def may(self, scope: str) -> bool:
        """Whether their token permits this."""
        return scope in self.token.scopes


def by_bearer(request: Request) -> Visitor | None:
    """The visitor whose token the header `Authorization: Bearer` holds."""
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return recognise_visitor(request, secret.strip()) if kind.casefold() == "bearer" else None


def by_cookie(request: Request) -> Visitor | None:
    """The visitor who signed in."""
    return recognise_visitor(request, request.cookies.get(COOKIE, ""))


def recognise_visitor(request: Request, secret: str) -> Visitor | None:
    """The visitor of a valid token."""
    if not secret:
        return None
    lab: Lab = request.app.state.lab
    with lab.reading() as tx:
        token = tokens.recognise(tx, secret, lab.now())
    return Visitor(token=token, secret=secret) if token else None


@contextmanager
def writing_api(request: Request, scope: Scope, what: str) -> Iterator[tuple[Transaction, Visitor]]:
    """A transaction that writes for a script whose token permits it."""
    with _writing(request, by_bearer(request), scope, what) as permitted:
        yield permitted


@contextmanager
def writing_form(
    request: Request, form: Mapping[str, str], scope: Scope, what: str
) -> Iterator[tuple[Transaction, Visitor]]:
    """A transaction that writes for a signed-in visitor who sent a form of ours."""
    visitor = by_cookie(request)
    require_own_form(visitor, form)
    with _writing(request, visitor, scope, what) as permitted:
        yield permitted


def require_own_form(visitor: Visitor | None, form: Mapping[str, str]) -> None:
    """Forbidden unless a form was made for this visitor."""
    sent = form.get(FIELD, "")
    if visitor is None:
        raise Unauthorised
    if not hmac.compare_digest(sent.encode(), visitor.csrf.encode()):
        raise Forbidden("the form is not from this page, or is old: load the page again")


@contextmanager
def _writing(
    request: Request, visitor: Visitor | None, scope: Scope, what: str
) -> Iterator[tuple[Transaction, Visitor]]:
    if visitor is None:
        raise Unauthorised
    if not visitor.may(scope):
        raise Forbidden(f"token {visitor.name} does not permit this: its scope lacks '{scope}'")
    lab: Lab = request.app.state.lab
    now = lab.now()
    with lab.writing() as tx:
        if tokens.recognise(tx, visitor.secret, now) is None:  # revoked this moment
            raise Unauthorised
        tokens.note_use(tx, visitor.token, now)
        yield tx, visitor
    log.event(_log, "token_used", token=visitor.name, path=request.url.path, what=what)
