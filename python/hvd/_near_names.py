"""Finds the name of this package that a program means by a name that is not there.

Names are compared as words, in any order: all_gather, AllGather and allgather are alike, and so are local_ranks and
LOCAL_RANK. Words that other packages have for the same are in two small tables. A word that is spelled wrong is taken for
the nearest one. Any thread.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Collection, Iterable
from typing import Optional

Key = tuple[str, ...]

# Words that mean the same. The first word of a line is used for the others.
_SAME_WORDS = """
    allgather gather allgatherv gatherv
    allreduce reduce psum pmean pmax pmin
    average avg mean
    broadcast bcast
    built available build
    count num number
    gradient grad
    grouped group coalesced fused
    index id
    initialize initialise init
    left remaining
    max maximum
    min minimum
    node host machine
    normalization normalisation norm
    object obj
    optimizer opt optim
    parameter param weight variable var model module
    processset processgroup communicator subgroup
    product prod
    reducescatter psumscatter
    set new create make
    stopping stop
    synchronize synchronise sync
"""

# Words that a name means the same without.
_NO_MEANING = set("and comm current distributed get global horovod hvd in into is list my single tensor the to total world".split())

# What to write: the names that other packages have for it, or that programs give to functions of their own. Some are
# names of arguments.
_OTHER_NAMES = {
    "DistributedOptimizer":
        "DistributedDataParallel DDP DataParallel MirroredStrategy MultiWorkerMirroredStrategy Strategy "
        "TPUStrategy ParameterServerStrategy allreduce_gradients average_gradients sync_gradients sum_gradients "
        "aggregate_gradients wrap_model prepare prepare_model prepare_optimizer",
    "DistributedOptimizer(shard=True)": "FullyShardedDataParallel FSDP fully_shard ZeroRedundancyOptimizer ShardedOptimizer",
    "DistributedOptimizer(backward_passes_per_step=N)": "no_sync accumulate gradient_accumulation accumulation_steps",
    "ProcessSet": "Communicator",
    "SyncBatchNorm": "convert_sync_batch_norm",
    "SyncBatchNormalization": "convert_sync_batch_norm",
    "add_process_set": "new_process_group new_group split_group new_subgroups init_device_mesh Create_group Split",
    "agree_stop": "should_stop all_stop stop_all",
    "allreduce_": "allreduce_inplace",
    "allreduce_async": "Iallreduce Ireduce",
    "allgather_async": "Iallgather Igather Iallgatherv",
    "alltoall": "all2all Alltoallv Alltoallw",
    "alltoall_async": "Ialltoall Ialltoallv",
    "average_metrics": "reduce_metrics sync_metrics reduce_dict average_dict",
    "barrier": "Ibarrier monitored_barrier wait_for_everyone wait_for_all sync_global_devices sync_processes rendezvous",
    "broadcast_": "broadcast_inplace",
    "broadcast_async": "Ibcast",
    "broadcast_global_variables": "broadcast_weights broadcast_state_dict",
    "broadcast_object": "broadcast_pyobj",
    "broadcast_parameters": "broadcast_state_dict sync_params allreduce_params",
    "broadcast_variables": "broadcast_state_dict sync_params allreduce_params",
    "checkpoint": "save load save_checkpoint load_checkpoint",
    "global_process_set": "COMM_WORLD WORLD group_world default_group",
    "init": "init_process_group Init_thread setup start",
    "is_initialized": "is_init is_available is_distributed",
    "local_device": "device set_device current_device device_id device_index local_device_id gpu_id",
    "local_batch": "batch_size local_batch_size per_rank_batch",
    "local_rank": "local_process_index local_process_id node_local_rank",
    "local_size": "local_world_size nproc_per_node local_device_count local_process_count ranks_per_node local_count",
    "node_count": "nnodes",
    "node_rank": "node_index group_rank",
    "on_rank0": "on_main_process main_process_only rank_zero_only rank0_only on_master master_only main_process_first",
    "np": "nproc num_proc n_procs num_processes",
    "op": "reduce_op reduction",
    "print0": "print_rank0 print_rank_0 print_once print_main print_master master_print main_print rank0_print rank_zero_print",
    "numpy": "np",
    "process_set": "group comm pg",
    "process_set_ids": "process_group_ids",
    "rank": "process_index process_rank task_index task_rank replica_index worker_index worker_rank axis_index",
    "rank() == 0": "is_main_process is_main is_master is_chief is_rank0 is_rank_0 is_rank_zero is_root is_local_main_process",
    "reducescatter_async": "Ireduce_scatter",
    "root_rank": "root src source",
    "run": "spawn launch start_processes mpirun elastic_launch notebook_launcher",
    "scale_rate": "scale_lr scale_learning_rate",
    "set_epoch": "epoch",
    "set_metric": "log log_metric add_scalar",
    "set_step": "step",
    "shutdown": "finalize finalise destroy_process_group deinit cleanup close terminate end_training abort",
    "size": "num_ranks num_processes num_replicas num_replicas_in_sync num_workers nranks nprocs process_count device_count "
            "num_gpus num_devices",
    "start_timeline": "start_trace profile start_profiler",
    "stop_timeline": "stop_trace stop_profiler",
    "synchronize": "wait",
    "tensorflow": "tf",
    "torch": "pytorch",
    "warmup": "lr_warmup warmup_lr",
}


def _split(name: str) -> list[str]:
    """Returns the words of "local_rank", "LOCAL_RANK" and "LocalRank" in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z0-9]+|\d+", name)]


def _one(word: str) -> str:
    """Returns the singular of a word, as far as a rule can know it."""
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] not in "su" else word


def _fold(name: str) -> str:
    return "".join(_split(name))


_STANDS_FOR = {_one(word): line.split()[0] for line in _SAME_WORDS.strip().splitlines() for word in line.split()}


def written(meant: str) -> str:
    """Returns the name in what to write: "rank" of "rank() == 0"."""
    return re.split(r"\W", meant, maxsplit=1)[0]


def _distance(one: str, other: str) -> int:
    """Returns how many letters are wrong, missing, too many, or exchanged with their neighbour."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        now = [row]
        for column, its in enumerate(other, 1):
            best = min(last[column] + 1, now[-1] + 1, last[column - 1] + (letter != its))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == its:
                best = min(best, before[column - 2] + 1)
            now.append(best)
        before, last = last, now
    return last[-1]


def _is_misspelt(word: str, right: str) -> bool:
    """Returns whether the word may be `right` with an error of spelling: one, or two in a long word; none in a short one."""
    most = min(len(word), len(right))
    errors = 0 if most < 4 else 1 if most < 8 else 2
    return abs(len(word) - len(right)) <= errors and _distance(word, right) <= errors


class Names:
    """Public names, to be searched for those that are near to another."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(set(names))
        others = {meant: [*text.split(), meant] for meant, text in _OTHER_NAMES.items() if written(meant) in self._names}
        everything = [*self._names, *(name for group in others.values() for name in group)]
        self._words = {_one(word) for name in everything for word in _split(name)} | _NO_MEANING | {*_STANDS_FOR}
        self._words -= {"s", "n"}
        self._folded = {name: _fold(name) for name in self._names}
        self._key_of = {name: self._key(self._words_of(name)) for name in self._names}
        self._keys: dict[Key, list[str]] = {}  # what to write, by the words
        for name, key in self._key_of.items():
            self._keys.setdefault(key, []).append(name)
        for meant, group in others.items():
            for name in group:
                self._keys.setdefault(self._key(self._words_of(name)), []).append(meant)

    def _is_word(self, word: str) -> bool:
        return _one(word) in self._words

    def _parts(self, text: str) -> Optional[list[str]]:
        """Divides a text without gaps into the fewest known words. None if that cannot be done."""
        best: list[Optional[list[str]]] = [[]]
        for end in range(1, len(text) + 1):
            fits = [[*best_before, text[begin:end]] for begin in range(end)
                    if (best_before := best[begin]) is not None and self._is_word(text[begin:end])]
            best.append(min(fits, key=len) if fits else None)
        return best[-1]

    def _words_of(self, name: str) -> list[str]:
        return self._parts(_fold(name)) or [word for each in _split(name) for word in self._parts(each) or [each]]

    def _key(self, words: Iterable[str]) -> Key:
        """Returns what is compared of the words."""
        common = {_STANDS_FOR.get(word, word) for word in map(_one, words)}
        return tuple(sorted(common - _NO_MEANING or common))

    def _corrected(self, word: str) -> str:
        if self._is_word(word):
            return word
        near = sorted((_distance(word, known), known) for known in self._words if _is_misspelt(word, known))
        return near[0][1] if near else word

    def nearest(self, name: str, prefers: Collection[str], collectives: Collection[str]) -> str:
        """Returns what the program may mean by the name, or "" for nothing.

        prefers: the names of the module that was asked. collectives: names that mean the same with words about the tensor.
        """
        words = self._words_of(name)
        corrected = self._key(map(self._corrected, words))
        searches: list[Callable[[], list[str]]] = [
            lambda: self._of(self._key(words)),
            lambda: self._misspelt(name),
            lambda: self._of(corrected),
            lambda: self._only(self._with_more_words(corrected), prefers),
            lambda: [each for each in collectives if each in corrected],
        ]
        for search in searches:
            if found := search():
                return min(found, key=lambda meant: (written(meant) not in prefers, *_difference(name, meant)))
        return ""

    def spelled_like(self, name: str) -> str:
        """Returns the name with the same words, or with errors of spelling; "" if there is none."""
        found = self._of(self._key(self._words_of(name))) or self._misspelt(name)
        return min(found, key=lambda meant: _difference(name, meant), default="")

    def alike(self, name: str, prefers: Collection[str]) -> str:
        """Returns the preferred name whose words mean the same, or ""."""
        found = [meant for meant in self._of(self._key(self._words_of(name))) if written(meant) in prefers]
        return min(found, key=lambda meant: _difference(name, meant), default="")

    def _of(self, key: Key) -> list[str]:
        return self._keys.get(key, []) if key else []

    def _misspelt(self, name: str) -> list[str]:
        folded = _fold(name)
        near = {each: _distance(folded, its) for each, its in self._folded.items() if _is_misspelt(folded, its)}
        return [each for each, distance in near.items() if distance == min(near.values())]

    def _with_more_words(self, key: Key) -> list[str]:
        wanted = set(key)
        if len("".join(wanted)) < 5:
            return []
        return [name for name, its in self._key_of.items() if wanted < set(its)]

    def _only(self, found: list[str], prefers: Collection[str]) -> list[str]:
        """Returns the one name if it is one: which of several is meant cannot be known."""
        for among in ([name for name in found if name in prefers], found):
            if len(among) == 1:
                return among
        return []


def _difference(name: str, meant: str) -> tuple[bool, bool, float]:
    """Returns what is less for a name that is nearer."""
    return _fold(name) != _fold(meant), name.endswith("_") != meant.endswith("_"), -difflib.SequenceMatcher(None, name, meant).ratio()


@functools.lru_cache(maxsize=None)
def _of(names: frozenset[str]) -> Names:
    return Names(names)


def of(names: Iterable[str]) -> Names:
    """Returns the names, ready for searches. They are kept: a module has few sets of them."""
    return _of(frozenset(names))
