"""How a module of horovod has the names of one of hvd."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable, NoReturn

NO_ELASTIC = ("a job keeps its number of ranks; hvdrun --max-restarts starts one that has failed again, from its last "
              "checkpoint")


def names_of(source: ModuleType, own: str) -> Callable[[str], Any]:
    """The `__getattr__` of module `own`: looks a name up in `source` when it is asked for, as some take long to import.
    AttributeError, with the name, for what hvd does not have."""
    def find(name: str) -> Any:
        try:
            return getattr(source, name)
        except AttributeError as error:
            if name.startswith("__"):  # what Python itself asks of modules
                raise AttributeError(f"module {own!r} has no attribute {name!r}") from None
            raise AttributeError(f"{own}.{name}: hvd has nothing of that name ({error})") from None
    return find


def refuse(module: str, instead: str) -> NoReturn:
    """ImportError for a module of Horovod's that there is not."""
    raise ImportError(f"{module}: hvd does not have it; {instead}", name=module)
