"""For cases: what must be raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raises(kind: type[BaseException], *words: str) -> Iterator[None]:
    """Fails unless the body raises `kind`, with all the words in its text."""
    try:
        yield
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} missing in: {type(error).__name__}: {error}"
    else:
        raise AssertionError(f"{kind.__name__} was not raised")
