"""For cases and programs: checks of raised exceptions, and the runner of a program's checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def raises(kind: type[BaseException], *words: str) -> Iterator[None]:
    """Fails unless the body raises `kind` with all the words in its text."""
    try:
        yield
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} missing in: {type(error).__name__}: {error}"
    else:
        raise AssertionError(f"{kind.__name__} was not raised")


def run_checks(names: dict[str, Any]) -> None:
    """Calls each check_NAME() of a program, given its globals(), and prints NAME."""
    for name, check in list(names.items()):
        if name.startswith("check_"):
            check()
            print(name, flush=True)
