"""The forge of a name and a repository, by the variables that its runners set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from vkbench.errors import UsageError
from vkbench.forges import github, gitlab
from vkbench.forges.forge import TRIES, Connection, Forge
from vkbench.forges.github import GitHub
from vkbench.forges.gitlab import GitLab
from vkbench.settings import read_variables

_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)*")


class ForgeKind(StrEnum):
    """The forges that vkbench speaks to."""

    GITHUB = "github"
    GITLAB = "gitlab"


_MODULES = {ForgeKind.GITHUB: github, ForgeKind.GITLAB: gitlab}
_NAMES = {ForgeKind.GITHUB: "GitHub", ForgeKind.GITLAB: "GitLab"}
_URLS = {ForgeKind.GITHUB: "GITHUB_API_URL", ForgeKind.GITLAB: "CI_API_V4_URL"}
_TOKENS = {ForgeKind.GITHUB: "GITHUB_TOKEN", ForgeKind.GITLAB: "GITLAB_TOKEN"}


def open_forge(
    kind: ForgeKind, repository: str, *, token: str, url: str = "", tries: int = TRIES
) -> Forge:
    """A repository of a forge; UsageError if its name is none."""
    parts = repository.split("/")
    if not _REPOSITORY.fullmatch(repository) or {".", ".."} & set(parts):
        raise UsageError(f"'{repository}' is no repository: write OWNER/NAME")
    if kind is ForgeKind.GITHUB and len(parts) != 2:
        raise UsageError(f"'{repository}' is no repository of GitHub: write OWNER/NAME")
    module = _MODULES[kind]
    place = Connection(
        name=_NAMES[kind], url=url or module.URL, headers=module.headers_of(token), tries=tries
    )
    is_github = kind is ForgeKind.GITHUB
    return (GitHub if is_github else GitLab)(connection=place, repository=repository)


def forge_of_runner(
    kind: ForgeKind, repository: str, variables: Mapping[str, str] | None = None
) -> Forge:
    """A repository of the forge whose runner this is: it says URL and token by variables."""
    variables = read_variables() if variables is None else variables
    token = variables.get(_TOKENS[kind], "")
    if not token:
        raise UsageError(f"{_TOKENS[kind]} is not set: posting needs a token")
    return open_forge(kind, repository, token=token, url=variables.get(_URLS[kind], ""))
