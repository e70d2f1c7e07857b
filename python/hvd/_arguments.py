"""Names wrong arguments of public functions: the function, the argument, what was given and what is allowed.

A function checks nothing before its work, because that would take time in each call. If its work fails in a way that a
wrong value causes, its arguments are compared with its annotations. A wrong one becomes a TypeError or ValueError in
the place of the exception, which stays its cause. ctypes.ArgumentError never leaves a public function.

guard() does this to all public functions and classes of a module. Any thread.
"""

from __future__ import annotations

import collections.abc
import ctypes
import difflib
import enum
import functools
import inspect
import operator
import os
import struct
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional, TypeVar, Union

from . import _near_names, errors
from .process_sets import ProcessSet
from .types import ReduceOp

Function = TypeVar("Function", bound=Callable[..., Any])

# What wrong values raise somewhere below a public function.
_SIGNS = (TypeError, ValueError, AttributeError, LookupError, OverflowError, ctypes.ArgumentError, struct.error)
_HERE = os.path.dirname(__file__) + os.sep
_UNIONS = (Union, getattr(types, "UnionType", Union))


def guard(public: dict[str, Any], names: Optional[Iterable[str]] = None, module: str = "") -> None:
    """Makes the functions and classes among `names`, in the globals of a public module, name their wrong arguments.

    names: None for what the module defines itself. module: what messages call it, if not by its name.
    """
    own = public["__name__"]
    module = module or own
    if names is None:
        names = [name for name, thing in public.items() if name[0] != "_" and getattr(thing, "__module__", None) == own]
    for name in list(names):
        thing = public.get(name)
        owner = str(getattr(thing, "__module__", "") or "")
        if owner.split(".")[0] != "hvd":
            continue
        if inspect.isclass(thing):
            _guard_class(f"{module}.{name}", thing)
        elif inspect.isfunction(thing):
            public[name] = guarded(thing, f"{module}.{name}")
            # pickle looks a function up where it was defined.
            defined_in = sys.modules.get(owner)
            if defined_in is not None and vars(defined_in).get(thing.__name__) is thing:
                setattr(defined_in, thing.__name__, public[name])


def _guard_class(name: str, kind: type[Any]) -> None:
    if issubclass(kind, (BaseException, enum.Enum, tuple)):
        return
    is_own = all(base.__module__.split(".")[0] in ("hvd", "builtins", "typing") for base in kind.__mro__)
    for method, function in list(vars(kind).items()):
        is_public = method == "__init__" or (is_own and not method.startswith("_"))
        called = name if method == "__init__" else f"{name}.{method}"
        if is_public and inspect.isfunction(function):
            setattr(kind, method, guarded(function, called))
        elif is_public and isinstance(function, (classmethod, staticmethod)):
            setattr(kind, method, type(function)(guarded(function.__func__, called)))


def guarded(function: Function, name: str) -> Function:
    """Returns the function, which names its wrong arguments. `name`: as the program calls it, "hvd.torch.allreduce"."""
    if getattr(function, "hvd_guards", False) or not set(inspect.signature(function).parameters) - {"self", "cls"}:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _SIGNS as error:
            named = named_error(function, name, args, kwargs, error)
            if named is error:
                raise
            raise named from error

    call.hvd_guards = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def guards_itself(function: Function) -> Function:
    """Decorates a function that names its wrong arguments without guard(), because it is called very often."""
    function.hvd_guards = True  # type: ignore[attr-defined]
    return function


def named_error(function: Callable[..., Any], name: str, args: Any, kwargs: Any, error: Exception) -> Exception:
    """Returns the exception for the first wrong argument of a call that has failed; the error itself if there is none."""
    is_said = isinstance(error, (TypeError, ValueError)) and str(error).startswith("hvd") and not hasattr(error, "hvd_inner")
    if isinstance(error, errors.Error) or is_said:  # in hvd's own words already
        return error
    text = _complaint(function, name, args, kwargs)
    if text:
        complaint: Any = (ValueError if isinstance(error, ValueError) else TypeError)(text)
        complaint.hvd_inner = True  # the function that the program has called says it again, with its own name
        if errors.is_shared(error):
            errors.mark_shared(complaint)
        return complaint
    if isinstance(error, (ctypes.ArgumentError, struct.error)) or (isinstance(error, AttributeError) and _is_ours(error)):
        other = TypeError(f"{name} has failed: {type(error).__name__}: {error}")
        if errors.is_shared(error):
            errors.mark_shared(other)
        return other
    return error


def _is_ours(error: BaseException) -> bool:
    """Returns whether this package has raised the exception, and no function of the program that it has called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE)


def _complaint(function: Callable[..., Any], name: str, args: Any, kwargs: Any) -> str:
    """Returns what is wrong with the first wrong argument; "" if all are right."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as error:  # too many, too few, or unknown ones
        return f"{name}(): {_unknown_argument(signature, kwargs) or error}"
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # an annotation that only a type checker knows
        return ""
    for argument, value in bound.items():
        hint = hints.get(argument, Any)
        if argument in ("self", "cls") or _allows(hint, value):
            continue
        return f"{name}: {argument} is {_given(value)}, not {_allowed(hint)}{_hint_for(hint, value)}"
    return ""


def _unknown_argument(signature: inspect.Signature, kwargs: Any) -> str:
    """Returns what is said of the first argument that the function does not know, or "".

    bind() itself would rather say which argument is missing: often the one that has been given under another name.
    """
    parameters = signature.parameters.values()
    unknown = [argument for argument in kwargs if argument not in signature.parameters]
    if not unknown or any(each.kind is each.VAR_KEYWORD for each in parameters):
        return ""
    known = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    known = [argument for argument in known if argument not in ("self", "cls")]
    meant = _near_names.of(known).nearest(unknown[0], known, ())
    hint = f"did you mean {meant}? Its arguments: " if meant in known and meant not in kwargs else "its arguments: "
    return f"got an unexpected keyword argument {unknown[0]!r}; {hint}{', '.join(known)}"


def _names_op(hint: Any) -> bool:
    return hint is ReduceOp or ReduceOp in typing.get_args(hint)


def _hint_for(hint: Any, value: Any) -> str:
    """Returns "; write hvd.Sum" for "sum"."""
    if not isinstance(value, str) or not _names_op(hint):
        return ""
    by_name = {op.name.lower(): op.name for op in ReduceOp}
    close = difflib.get_close_matches({"mean": "average", "avg": "average"}.get(value.lower(), value.lower()), by_name, 1)
    return f"; write hvd.{by_name[close[0]]}" if close else ""


def _given(value: Any) -> str:
    """Returns the value as a program writes it, or what it is, if that is long."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, list, tuple, dict, set)):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}…"
    kind = value if inspect.isclass(value) else type(value)
    return f"{'the class' if inspect.isclass(value) else 'an object of the class'} {kind.__module__}.{kind.__qualname__}"


def _is_number(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and (hasattr(value, "__float__") or hasattr(value, "__index__"))


def _is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_true_or_false(value: Any) -> bool:
    return isinstance(value, (bool, int)) or type(value).__name__ in ("bool_", "bool")


# By annotation: whether a value is right, and the words for it.
_PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (_is_whole, "a whole number"),
    float: (_is_number, "a number"),
    bool: (_is_true_or_false, "True or False"),
    str: (lambda value: isinstance(value, str), "a text"),
    bytes: (lambda value: isinstance(value, (bytes, bytearray, memoryview)), "bytes"),
    type(None): (lambda value: value is None, "None"),
    ReduceOp: (lambda value: _is_whole(value) and value in list(ReduceOp), "one of " + ", ".join(f"hvd.{op.name}" for op in ReduceOp)),
    ProcessSet: (lambda value: isinstance(value, ProcessSet), "an hvd.ProcessSet"),
}
_WORDS = {collections.abc.Sequence: "a list", collections.abc.Iterable: "a list", collections.abc.Mapping: "a dict",
          collections.abc.Sized: "something with a length", list: "a list", tuple: "a tuple", dict: "a dict", set: "a set",
          collections.abc.Callable: "a function", os.PathLike: "a path"}


def _allows(hint: Any, value: Any) -> bool:
    """Returns whether the value is right for the annotation. What this does not know is right."""
    hint = _bound_of(hint)
    if _is_hashable(hint) and hint in _PLAIN:
        return _PLAIN[hint][0](value)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return any(_allows(each, value) for each in inner)
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is type:
        return inspect.isclass(value)
    if inspect.isclass(origin):
        return _is_collection(origin, inner, value)
    if inspect.isclass(hint) and not getattr(hint, "_is_protocol", False):
        try:
            return isinstance(value, hint)
        except TypeError:
            return True
    return True


def _bound_of(hint: Any) -> Any:
    return (hint.__bound__ or Any) if isinstance(hint, TypeVar) else hint


def _is_hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True


def _is_collection(origin: Any, inner: Any, value: Any) -> bool:
    try:
        if not isinstance(value, origin):
            # Arrays are sequences in all but name.
            return origin in (collections.abc.Sequence, list) and hasattr(value, "__getitem__") and hasattr(value, "__len__") \
                and not isinstance(value, Mapping)
    except TypeError:
        return True
    if origin in (collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection) and isinstance(value, (str, bytes)):
        return not inner or inner[0] in (str, Any)
    if isinstance(value, (list, tuple)) and len(inner) == 1:
        return all(_allows(inner[0], each) for each in value)
    return True


def _allowed(hint: Any) -> str:
    """Returns what the annotation allows, in words."""
    hint = _bound_of(hint)
    if _is_hashable(hint) and hint in _PLAIN:
        return _PLAIN[hint][1]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        words = [_allowed(each) for each in inner]
        words = [word for index, word in enumerate(words) if word not in words[:index]]
        return " or ".join(words)
    if origin in _WORDS:
        of = f" of {_plural(inner[0])}" if len(inner) == 1 and origin is not os.PathLike and _plural(inner[0]) else ""
        return _WORDS[origin] + of
    if origin is type:
        return "a class"
    if inspect.isclass(hint):
        name = _public_name(hint)
        return _WORDS.get(hint) or f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
    return getattr(hint, "__name__", str(hint))


def _plural(hint: Any) -> str:
    known = {int: "whole numbers", float: "numbers", str: "texts", ProcessSet: "hvd.ProcessSet"}
    return known.get(hint, "") if _is_hashable(hint) and hint in known else _public_name(hint) if inspect.isclass(hint) else ""


def _public_name(kind: Any) -> str:
    """Returns "torch.optim.Optimizer" for torch.optim.optimizer.Optimizer."""
    parts = [part for part in kind.__module__.split(".") if not part.startswith("_") and part.lower() != kind.__name__.lower()]
    return kind.__name__ if parts == ["builtins"] else ".".join([*parts, kind.__name__])
