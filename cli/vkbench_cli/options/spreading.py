"""Spreads a command's records of options over its command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints


def spread(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with each parameter that is a record of options replaced by those options.

    Typer reads signatures; without this, every command would repeat a dozen parameters.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        group = groups.get(name)
        parameters += _parameters(group) if group else [parameter.replace(annotation=hints[name])]

    def gather_options(**values: Any) -> Any:
        for name, kind in groups.items():
            values[name] = kind(**{item.name: values.pop(item.name) for item in fields(kind)})
        return command(**values)

    gather_options.__name__, gather_options.__doc__ = command.__name__, command.__doc__
    gather_options.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    gather_options.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return gather_options


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(item.name, kind, default=_default(item), annotation=hints[item.name])
        for item in fields(group)
    ]


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()
