"""The application: pages, the read API, static files, and what every answer carries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib.resources import files

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

import vkbench
from vkbench_web import faults
from vkbench_web.access import guard, headers, hosts, orders
from vkbench_web.lab import Lab
from vkbench_web.pages import PAGES


def application(lab: Lab, names: Collection[str] = ()) -> FastAPI:
    """The pages of a lab, asked by these names alone, or by any if there are none."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        lab.close()

    app = FastAPI(
        title="vkbench",
        version=vkbench.__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page would load from another host
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.lab = lab
    guard.install(app)
    hosts.install(app, names)
    headers.install(app)
    faults.install(app)
    for module in (*PAGES, orders):
        app.include_router(module.router)
    app.mount("/static", StaticFiles(directory=str(files("vkbench_web") / "static")))
    return app
