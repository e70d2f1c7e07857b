"""Process sets: subsets of the ranks, with collectives of their own."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

from . import _library, errors
from ._collectives import sharing_failure
from ._library import check, lib


class ProcessSet:
    """Some ranks of the job. Usable after `hvd.init(process_sets=[...])` or `hvd.add_process_set()` with it.

    ranks_or_comm: numbers among all ranks, in any order; the name is Horovod's. Inside the set the ranks are in the order of `hvd.rank()`.
    """

    process_set_id: Optional[int] = None  # None if the job does not know the set
    text_of_others = ""  # what the module horovod adds to the text of every set

    def __init__(self, ranks_or_comm: Iterable[int]) -> None:
        if not isinstance(ranks_or_comm, Iterable):
            raise NotImplementedError("hvd.ProcessSet of an MPI communicator: give its ranks instead")
        self._ranks = sorted(int(rank) for rank in ranks_or_comm)

    @property
    def ranks(self) -> Optional[list[int]]:
        return list(self._ranks)

    def _known(self) -> int:
        if self.process_set_id is None:
            raise errors.NotInitializedError(
                f"{self}: not known yet; give it to hvd.init(process_sets=...) or hvd.add_process_set()")
        return self.process_set_id

    def included(self) -> bool:
        """Returns whether this rank is in the set."""
        return _library.number(lib.hvd_process_set_included(self._known())) == 1

    def rank(self) -> int:
        """Returns this rank's number in the set, 0 to size() - 1. InvalidArgumentError if it is not in the set."""
        return _library.number(lib.hvd_process_set_rank(self._known()))

    def size(self) -> int:
        """Returns the number of ranks in the set."""
        return _library.number(lib.hvd_process_set_size(self._known()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessSet) and (self.process_set_id, self.ranks) == (other.process_set_id,
                                                                                       other.ranks)

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}{self.text_of_others})"

    __repr__ = __str__


class _AllRanks(ProcessSet):
    """Process set 0, with all ranks."""

    process_set_id = 0

    def __init__(self) -> None:
        super().__init__([])

    @property
    def ranks(self) -> Optional[list[int]]:
        size = lib.hvd_size()
        return list(range(size)) if size >= 0 else None


global_process_set = _AllRanks()

_known: dict[int, ProcessSet] = {}  # the sets that the job knows, by number, without set 0


def id_of(process_set: Union[ProcessSet, None]) -> int:
    """Returns the set's number, for calls of libhvd. NotInitializedError if the job does not know the set."""
    if process_set is global_process_set:
        return 0
    if not isinstance(process_set, ProcessSet):
        raise TypeError(f"process_set is {process_set!r}, not an hvd.ProcessSet")
    return process_set._known()


def remember(process_sets: Sequence[ProcessSet]) -> None:
    """Numbers the sets of hvd.init() from 1, as libhvd does."""
    for number, process_set in enumerate(process_sets, 1):
        process_set.process_set_id = number
        _known[number] = process_set


def forget_all() -> None:
    """Marks all sets as unknown. For hvd.shutdown(), which removes them."""
    for process_set in _known.values():
        process_set.process_set_id = None
    _known.clear()


@sharing_failure("")
def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Adds a set to the job. A collective: all ranks call it with the same ranks, also those not in the set.

    Errors: on all ranks, MismatchError if the arguments differ and InvalidArgumentError for ranks that do not exist;
    InvalidArgumentError for a set that was added already.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    ranks = process_set.ranks or []
    if process_set.process_set_id is not None:
        raise errors.InvalidArgumentError(f"{process_set}: is known already")
    number = ctypes.c_int32()
    check(lib.hvd_add_process_set((ctypes.c_int * max(1, len(ranks)))(*ranks), len(ranks), ctypes.byref(number)))
    process_set.process_set_id = number.value
    _known[number.value] = process_set
    return process_set


def find_or_add(ranks: Sequence[int]) -> ProcessSet:
    """Returns a set of these ranks that the job knows, or adds one. A collective of all ranks, as add_process_set()."""
    wanted = sorted(ranks)
    for process_set in (global_process_set, *_known.values()):
        if process_set.ranks == wanted:
            return process_set
    return add_process_set(wanted)


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set from the job. A collective.

    Returns False, and does nothing, for a set that the job does not know and for that of all ranks.
    """
    number = process_set.process_set_id
    if not number:
        return False
    check(lib.hvd_remove_process_set(number))
    _known.pop(number, None)
    process_set.process_set_id = None
    return True


def process_set_ids() -> list[int]:
    """Returns the numbers of all sets, including 0."""
    count = _library.number(lib.hvd_process_sets(None, 0))
    numbers = (ctypes.c_int32 * count)()
    return list(numbers[: _library.number(lib.hvd_process_sets(numbers, count))])


def get_process_set_ids_and_ranks() -> dict[int, list[int]]:
    """Returns the ranks of every set, by its number."""
    found = {}
    for number in process_set_ids():
        count = _library.number(lib.hvd_process_set_ranks(number, None, 0))
        ranks = (ctypes.c_int * max(1, count))()
        _library.number(lib.hvd_process_set_ranks(number, ranks, count))
        found[number] = list(ranks[:count])
    return found


def sets_of(argument: Any) -> list[ProcessSet]:
    """Returns the sets of hvd.init(process_sets=argument). TypeError for an invalid argument."""
    if argument is None or (isinstance(argument, str) and argument.lower() == "dynamic"):
        return []
    if isinstance(argument, str) or not all(isinstance(entry, ProcessSet) for entry in argument):
        raise TypeError(f'process_sets is {argument!r}, neither "dynamic" nor a list of hvd.ProcessSet')
    return list(argument)
