"""`vkbench model`: the group of `logits`, `make` and `ls`, for whole models."""

from __future__ import annotations

from typer import Typer

from vkbench_cli.commands.measure.model_logits import logits
from vkbench_cli.commands.measure.model_make import list_, make
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.spreading import spread

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Work with whole models, as GGUF files hold them."""


app.command()(logits)
app.command()(spread(make))
app.command("ls")(spread(list_))
