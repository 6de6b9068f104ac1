"""Values in and out: dataclasses, pydantic models and what json knows."""
from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import typing
import uuid
from typing import Any, Callable, Optional

from .errors import InvalidInput, NotSerializable, PgqrsError


class Codec:
    """Turns values into what is stored, and back.  Override both, for example to encrypt.

    encode() gets and returns what json.dumps() takes; decode() undoes it.  Inputs, outputs,
    payloads, signals, reasons and progress pass through it; errors, tags and headers do not."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        return value


PLAIN = Codec()     # an App's that has no other


def simple(value: Any) -> Any:
    """What json.dumps() asks for what it does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, 'model_dump'):
        return value.model_dump(mode='json')
    if hasattr(value, '__fields__') and hasattr(value, 'json'):       # pydantic 1
        return json.loads(value.json())
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    raise TypeError(f'{type(value).__qualname__} is no JSON')


encode = json.JSONEncoder(default=simple, allow_nan=False).encode


def dumps(codec: Codec, value: Any) -> str:
    """A value as the JSON text that is stored."""
    try:
        text = encode(value)
        if '\\u0000' in text or '\\ud' in text:
            _check_text(json.loads(text))
    except (TypeError, ValueError, RecursionError) as e:
        raise NotSerializable(f'the value cannot be stored: {e}') from e
    if codec is PLAIN:
        return text
    try:
        return encode(codec.encode(json.loads(text)))
    except (TypeError, ValueError, RecursionError) as e:
        raise NotSerializable(f'what the codec makes of the value cannot be stored: {e}') from e


def _check_text(value: Any) -> None:
    if isinstance(value, str):
        if '\0' in value:
            raise ValueError('jsonb has no NUL character')
        value.encode('utf-8')
    elif isinstance(value, dict):
        _check_text([*value, *value.values()])
    elif isinstance(value, list):
        for item in value:
            _check_text(item)


def loads(codec: Codec, value: Any, kind: Any = None) -> Any:
    """A stored value, made into the annotated type if that is a dataclass, model or the like."""
    return build(codec.decode(value), kind)


def build(value: Any, kind: Any) -> Any:
    try:
        return _build(value, kind)
    except (TypeError, ValueError, KeyError, ArithmeticError) as e:
        raise InvalidInput(f'this is no {getattr(kind, "__name__", kind)}: {e}') from e


def _build(value: Any, kind: Any) -> Any:
    if value is None or kind is None or kind is Any:
        return value
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union or type(kind).__name__ == 'UnionType':
        kinds = [k for k in args if k is not type(None)]
        return _build(value, kinds[0]) if len(kinds) == 1 else value
    if origin in (list, set, frozenset) and isinstance(value, list):
        return origin(_build(item, args[0]) for item in value)
    if origin is tuple and isinstance(value, list):
        kinds = [args[0]] * len(value) if args[1:] == (...,) else list(args)
        return tuple(_build(item, k) for item, k in zip(value, kinds))
    if origin is dict and isinstance(value, dict):
        return {key: _build(item, args[1]) for key, item in value.items()}
    if not isinstance(kind, type):
        return value
    make: Any = kind
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f'a {type(value).__name__} has no fields')
        types = hints(kind)
        return kind(**{f.name: _build(value[f.name], types.get(f.name)) for f in dataclasses.fields(kind)
                       if f.init and f.name in value})
    if hasattr(kind, 'model_validate'):
        return kind.model_validate(value)
    if hasattr(kind, 'parse_obj'):
        return kind.parse_obj(value)
    if kind in (datetime.datetime, datetime.date, datetime.time) and isinstance(value, str):
        return make.fromisoformat(value)
    if issubclass(kind, enum.Enum) or kind in (uuid.UUID, decimal.Decimal) or (kind in (set, frozenset, tuple) and isinstance(value, list)):
        return make(value)
    return value


def hints(item: Any) -> dict[str, Any]:
    """The annotations of a function or class; an error if one of them names nothing."""
    if not getattr(item, '__annotations__', True):
        return {}
    try:
        return typing.get_type_hints(item)
    except (NameError, AttributeError) as e:
        raise PgqrsError(f'the annotations of {getattr(item, "__qualname__", item)} cannot be resolved: {e}') from e
    except TypeError:                   # it can have none, as a functools.partial
        return {}


def parameter_type(function: Callable[..., Any], position: int) -> Optional[Any]:
    """What a parameter of a function is annotated with, None if it is not."""
    code = getattr(function, '__code__', None)
    names = code.co_varnames[:code.co_argcount] if code is not None else ()
    return hints(function).get(names[position]) if position < len(names) else None


def result_type(function: Callable[..., Any]) -> Optional[Any]:
    return hints(function).get('return')
