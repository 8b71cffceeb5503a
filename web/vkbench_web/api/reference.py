"""/api: every address of the API with its parameters and fields, made from its description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench_web.shell import page

router = APIRouter()
Schema = Mapping[str, Any]
_UNANCHORED = re.compile("[^a-z]+")


@dataclass(frozen=True, kw_only=True)
class FieldWords:
    """A parameter or a field, as people read it."""

    name: str
    type: str
    meaning: str
    is_required: bool


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One address and method."""

    method: str
    path: str
    anchor: str
    meaning: Sequence[str]  # paragraphs
    parameters: Sequence[FieldWords]
    body: Sequence[FieldWords]
    answer: Sequence[FieldWords]
    rows: Sequence[FieldWords]  # of each of the answer's rows
    refusals: Sequence[tuple[str, str]]  # status and why
    writes: bool


@router.get("/api", include_in_schema=False)
def reference(request: Request) -> Response:
    """The page of the API."""
    operations = list(list_operations(request.app.openapi()))
    return page(request, "api.html", operations=operations)


def list_operations(described: Schema) -> Iterator[Operation]:
    """Every operation of an OpenAPI description."""
    schemas = described.get("components", {}).get("schemas", {})
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            answer = _find_schema(_first_success(operation["responses"]), schemas)
            rows = answer.get("properties", {}).get("rows", {}).get("items", {})
            yield Operation(
                method=method.upper(),
                path=path,
                anchor=_UNANCHORED.sub("-", f"{method}{path}").strip("-"),
                meaning=[
                    part.replace("\n", " ") for part in operation["description"].split("\n\n")
                ],
                parameters=[
                    _describe_parameter(parameter) for parameter in operation.get("parameters", ())
                ],
                body=_list_fields(_find_schema(operation.get("requestBody", {}), schemas)),
                answer=_list_fields(answer),
                rows=_list_fields(_resolve(rows, schemas)),
                refusals=[
                    (status, response["description"])
                    for status, response in operation["responses"].items()
                    if not status.startswith("2")
                ],
                writes="security" in operation,
            )


def _first_success(responses: Schema) -> Schema:
    return next((response for status, response in responses.items() if status.startswith("2")), {})


def _find_schema(content: Schema, schemas: Schema) -> Schema:
    """The schema of what is sent or answered as JSON."""
    schema: Schema = content.get("content", {}).get("application/json", {}).get("schema", {})
    return _resolve(schema, schemas)


def _resolve(schema: Schema, schemas: Schema) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    resolved: Schema = schemas.get(name, {}) if name else schema
    return resolved


def _describe_parameter(parameter: Schema) -> FieldWords:
    return FieldWords(
        name=parameter["name"],
        type=_name_type(parameter["schema"]),
        meaning=parameter.get("description", ""),
        is_required=bool(parameter.get("required")),
    )


def _list_fields(schema: Schema) -> list[FieldWords]:
    required = schema.get("required", ())
    return [
        FieldWords(
            name=name,
            type=_name_type(field),
            meaning=field.get("description", ""),
            is_required=name in required,
        )
        for name, field in schema.get("properties", {}).items()
    ]


def _name_type(schema: Schema) -> str:
    """A type in a few words: text, number, list of text."""
    if "$ref" in schema:
        return "object"
    if "anyOf" in schema:
        names = dict.fromkeys(_name_type(choice) for choice in schema["anyOf"])
        known = [name for name in names if name != "nothing"]
        return "any" if len(known) > 3 else " or ".join(known)
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_name_type(schema.get('items', {}))}"
    return {"string": "text", "null": "nothing", "boolean": "yes or no"}.get(kind, kind)
