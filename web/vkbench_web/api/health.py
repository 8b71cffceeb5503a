"""/api/health: answers once the database has been read."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from vkbench_db.upkeep.attendance import attendance
from vkbench_web.shell import lab_of

router = APIRouter()


@router.get("/api/health", include_in_schema=False)
def health(request: Request) -> dict[str, str]:
    """Whether the pages can be read; the status is 503 if the database cannot be reached."""
    with lab_of(request).reading() as tx:
        attendance(tx)
    return {"status": "ok"}
