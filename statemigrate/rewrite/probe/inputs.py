"""The streams that a function takes, and what the rows of each are.

The function is the user's: it turns its input streams into the result. A schema is said where the
stream is, in the annotation of its parameter: ``Annotated[DataFrame, "id string, n int"]``, or the
DDL alone. What is said on the command line outranks it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_args

from statemigrate.errors import CodeError, FormatError
from statemigrate.formats import Struct

Schema = Any
"""DDL text, or a ``StructType``."""


def input_schemas(
    function: Callable[..., Any], given: Mapping[str, Schema], reference: str
) -> dict[str, Schema]:
    """The schema of each stream, by the name of its parameter; one for every one that needs it.

    Raises `CodeError` for a stream whose schema is not said, and for one that there is not.
    """
    parameters = _parameters(function, reference)
    unknown = sorted(set(given) - set(parameters))
    if unknown:
        raise _error(
            "SM-CODE-007",
            reference,
            f"has no input {unknown[0]}",
            expected=", ".join(parameters) or "a parameter for each input stream",
            found=", ".join(unknown),
            next_action="name the input as the function's parameter is named",
        )
    names = getattr(inspect.unwrap(function), "__globals__", {})
    said = {name: given.get(name, _annotated(each, names)) for name, each in parameters.items()}
    missing = [name for name, schema in said.items() if schema is None]
    if missing or not said:
        raise _unsaid(reference, missing)
    return {name: _checked(schema, name, reference) for name, schema in said.items()}


def _parameters(function: Callable[..., Any], reference: str) -> dict[str, inspect.Parameter]:
    if not callable(function) or isinstance(function, type):
        raise _error(
            "SM-CODE-008",
            reference,
            "is no function",
            expected="a function from the input streams to the result",
            found=type(function).__name__,
            next_action="name the function that turns the input streams into the DataFrame which "
            "the query writes",
        )
    found = inspect.signature(function).parameters
    return {
        name: each
        for name, each in found.items()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }


def _annotated(parameter: inspect.Parameter, names: Mapping[str, Any]) -> Schema | None:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = _evaluated(annotation, names)
    parts = get_args(annotation)[1:] or (annotation,)
    return next((each for each in parts if _is_schema(each)), None)


def _is_schema(part: object) -> bool:
    return isinstance(part, str) or type(part).__name__ == "StructType"


def _evaluated(annotation: str, names: Mapping[str, Any]) -> object:
    """What a postponed annotation says: the schema in it, as text or by a name of the module's."""
    try:
        expression = ast.parse(annotation, mode="eval").body
    except SyntaxError:
        return annotation  # the DDL itself
    said = [
        each.value if isinstance(each, ast.Constant) else names.get(each.id)
        for each in ast.walk(expression)
        if isinstance(each, ast.Constant | ast.Name)
    ]
    return next((each for each in reversed(said) if _is_schema(each)), None)


def _checked(schema: Schema, name: str, reference: str) -> Schema:
    if isinstance(schema, str):
        try:
            return Struct(schema).ddl
        except FormatError as error:
            raise _error(
                "SM-CODE-009",
                reference,
                f"has an input {name} whose schema is none",
                expected="DDL, as in order_id string, amount double, at timestamp",
                found=f"{schema!r}: {error.summary}",
                next_action=error.next_action or "correct the DDL",
            ) from error
    return schema


def _unsaid(reference: str, missing: list[str]) -> CodeError:
    if not missing:
        return _error(
            "SM-CODE-010",
            reference,
            "takes no input stream",
            expected="a parameter for each input stream",
            found="no parameter",
            next_action="let the function take its streams, instead of opening them; or let the "
            "new code run on a little input and give its checkpoint with --like",
        )
    name = missing[0]
    return _error(
        "SM-CODE-011",
        reference,
        f"does not say what the rows of {', '.join(missing)} are",
        expected=f'{name}: Annotated[DataFrame, "order_id string, amount double, at timestamp"]',
        found=f"no schema of {name}",
        next_action=f'annotate the parameter so, or add --input {name}="..."',
    )


def _error(
    code: str, reference: str, problem: str, *, expected: object, found: object, next_action: str
) -> CodeError:
    return CodeError(
        code,
        f"{reference} {problem}",
        expected=expected,
        found=found,
        next_action=next_action,
        reference=reference,
    )
