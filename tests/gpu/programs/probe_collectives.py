"""Checks of probe.py for collectives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import torch

import hvd.torch as hvt
from common import CUDA, DEVICE, relative_error, synchronize
from probe_checks import LIMITS, Check, Outcome, numbers_of_ranks, reduced, sum_of_ranks

KINDS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
         torch.bool)
COUNTS = (1, 1000, 262_147)
DELAY_CYCLES = 20_000_000  # of a GPU: about 10 ms


def every_type() -> Outcome:
    """Checks that the result is right, has the input's type and device, and that the input is unchanged."""
    wrong: list[str] = []
    worst: dict[str, float] = {}
    for kind in KINDS:
        for op in ("Min", "Max") if kind is torch.bool else ("Sum", "Average", "Min", "Max", "Product"):
            for count in COUNTS:
                label = f"{str(kind)[6:]} {op} {count}"
                parts = numbers_of_ranks(kind, count, seed=count)
                own = parts[hvt.rank()].to(DEVICE)
                got = hvt.allreduce(own, op=getattr(hvt, op), name=label)
                error = relative_error(got, reduced(op, parts))
                worst[str(kind)[6:]] = max(worst.get(str(kind)[6:], 0), error)
                same = torch.equal(own.cpu(), parts[hvt.rank()]) and got.dtype is kind and got.device.type == DEVICE.type
                if error > LIMITS.get(kind, 0) or not same:
                    wrong.append(label)
    return not wrong, wrong[:6] or worst


def same_bits() -> Outcome:
    own = numbers_of_ranks(torch.float32, COUNTS[-1], seed=5)[hvt.rank()].to(DEVICE)
    bits = hvt.allreduce(own, op=hvt.Sum, name="bits").cpu().numpy().tobytes()
    return len(set(hvt.allgather_object(hashlib.sha256(bits).hexdigest(), name="hashes"))) == 1, None


def factors() -> Outcome:
    errors, right = [], True
    for kind, before, after in ((torch.float32, 0.5, 3.0), (torch.bfloat16, 0.5, 4.0), (torch.bfloat16, 1 / 3, 1.0),
                                (torch.float16, 0.1, 1.0), (torch.float64, 1 / 7, 7.0)):
        parts = numbers_of_ranks(kind, 1000, seed=9)
        got = hvt.allreduce(parts[hvt.rank()].to(DEVICE), op=hvt.Sum, prescale_factor=before, postscale_factor=after,
                            name=f"{kind} {before}")
        errors.append(relative_error(got, reduced("Sum", parts) * before * after))
        right &= errors[-1] <= LIMITS[kind]
    return right, errors


def gathered_rows() -> Outcome:
    """Gathers r + 1 rows from rank r, then no rows from rank 0."""
    def rows_of(rank: int) -> torch.Tensor:
        return torch.arange((rank + 1) * 3.0).reshape(rank + 1, 3) + 100 * rank

    rank, size = hvt.rank(), hvt.size()
    got = hvt.allgather(rows_of(rank).to(DEVICE), name="uneven")
    none = hvt.allgather(torch.ones(0 if rank == 0 else 2, 4, device=DEVICE), name="none on rank 0")
    return torch.equal(got.cpu(), torch.cat([rows_of(one) for one in range(size)])) and none.shape[0] == 2 * (size - 1), None


def exchanged_rows() -> Outcome:
    """Sends r + 1 rows to rank r from every rank."""
    rank, size = hvt.rank(), hvt.size()
    splits = torch.arange(1, size + 1, device=DEVICE)
    got, received = hvt.alltoall(torch.full((int(splits.sum()), 2), float(rank), device=DEVICE), splits, name="splits")
    expected = torch.repeat_interleave(torch.arange(float(size)), rank + 1)
    return received.tolist() == [rank + 1] * size and torch.equal(got.cpu()[:, 0], expected), None


def scattered_rows() -> Outcome:
    part = hvt.reducescatter(torch.ones(2 * hvt.size() + 1, 5, device=DEVICE), op=hvt.Sum, name="rows")
    return bool((part == hvt.size()).all()) and part.shape[0] == 2 + (hvt.rank() == 0), part.shape[0]


def broadcast_from_last() -> Outcome:
    tensor = torch.full((100_003,), float(hvt.rank()), device=DEVICE)
    hvt.broadcast_(tensor, root_rank=hvt.size() - 1, name="root")
    return bool((tensor == hvt.size() - 1).all()), None


def groups() -> Outcome:
    tensors = [torch.full((count,), 1.0 + hvt.rank(), device=DEVICE) for count in (1, 77, 300_000)]
    results = hvt.grouped_allreduce(tensors, op=hvt.Sum, name="group")
    return all(bool((one == sum_of_ranks()).all()) for one in results), None


def sparse_sum() -> Outcome:
    """Sums sparse tensors: each rank has a row that no other has, and one that all have."""
    rank, size = hvt.rank(), hvt.size()
    own = torch.sparse_coo_tensor([[rank, size]], torch.ones(2, 3), (size + 1, 3)).to(DEVICE)
    total = hvt.sparse_allreduce_async(own, "sparse", hvt.Sum).wait().to_dense()
    return torch.equal(total.cpu(), torch.cat([torch.ones(size, 3), torch.full((1, 3), float(size))])), None


# Collectives of a tensor whose elements are all rank + 1, and the expected mean of each result.
def _ordered_calls() -> dict[str, tuple[Callable[[torch.Tensor, str], torch.Tensor], float]]:
    size = hvt.size()
    total = sum_of_ranks()
    return {
        "allreduce": (lambda tensor, name: hvt.allreduce(tensor, op=hvt.Sum, name=name), total),
        "allreduce_": (lambda tensor, name: hvt.allreduce_(tensor, op=hvt.Sum, name=name), total),
        "allreduce_async": (lambda tensor, name: hvt.synchronize(hvt.allreduce_async(tensor, op=hvt.Sum, name=name)), total),
        "broadcast_": (lambda tensor, name: hvt.broadcast_(tensor, 0, name=name), 1.0),
        "allgather": (lambda tensor, name: hvt.allgather(tensor, name=name), total / size),
        "alltoall": (lambda tensor, name: hvt.alltoall(tensor, name=name), total / size),
        "reducescatter": (lambda tensor, name: hvt.reducescatter(tensor.reshape(size, -1), op=hvt.Sum, name=name), total),
    }


def _is_ordered(call: Callable[[torch.Tensor, str], torch.Tensor], count: int, expected: float, name: str) -> bool:
    """Checks the order on the stream: a kernel delays the write of the input, and later work must not change the result."""
    tensor = torch.full((count * hvt.size(),), -1e30, device=DEVICE)
    torch.cuda._sleep(DELAY_CYCLES)
    tensor.fill_(hvt.rank() + 1.0)
    later = call(tensor, name) * 2
    if not name.startswith("broadcast_") and not name.startswith("allreduce_ "):
        tensor.fill_(-7)
    del tensor
    torch.full((count * hvt.size(),), float("nan"), device=DEVICE)  # overwrites the memory that has become free
    synchronize()
    return abs(later.double().mean().item() - 2 * expected) < 1e-9 and bool(torch.isfinite(later).all())


def order_on_streams() -> Outcome:
    if not CUDA:
        return None, "left out: no GPU"
    wrong = []
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        for count in (1, 1000, 1 << 20, 5 << 20):
            for label, (call, expected) in _ordered_calls().items():
                name = f"{label} {count} {stream.cuda_stream == 0}"
                with torch.cuda.stream(stream):
                    if not _is_ordered(call, count, expected, name):
                        wrong.append(name)
    return not wrong, wrong[:6] or None


def many_small() -> Outcome:
    """Reduces 161 gradients at once, twenty times, on odd ranks in reverse order. libhvd packs them or uses groups of NCCL."""
    generator = torch.Generator().manual_seed(3)
    counts = torch.randint(1, 60_000 if CUDA else 600, (161,), generator=generator).tolist()
    rank, size = hvt.rank(), hvt.size()
    for turn in range(20):
        tensors = [torch.full((count,), float(rank + turn + place % 5), device=DEVICE) for place, count in enumerate(counts)]
        places = range(len(counts)) if rank % 2 == 0 else reversed(range(len(counts)))
        handles = [hvt.allreduce_async_(tensors[place], op=hvt.Sum, name=f"gradient.{place}") for place in places]
        for handle in handles:
            handle.wait()
        for place, tensor in enumerate(tensors):
            expected = sum(one + turn + place % 5 for one in range(size))
            if not bool((tensor == expected).all()):
                return False, f"turn {turn}, tensor {place}"
    return True, None


def mistakes() -> Outcome:
    """Checks that all ranks get the same error, and that the device still works."""
    rank, size = hvt.rank(), hvt.size()
    tensors = {"shape": torch.ones(3 + rank, device=DEVICE),
               "type": torch.ones(3, device=DEVICE, dtype=torch.float32 if rank == 0 else torch.float64)}
    if CUDA:
        tensors["place"] = torch.ones(3, device=DEVICE if rank == 0 else "cpu")
    errors = {}
    for label, tensor in tensors.items():
        try:
            hvt.allreduce(tensor, name=label)
        except Exception as error:
            errors[label] = type(error).__name__
    after = hvt.allreduce(torch.ones(3, device=DEVICE), op=hvt.Sum, name="after").sum().item()
    return (size == 1 or errors.keys() == tensors.keys()) and after == 3 * size, errors


def process_set() -> Outcome:
    alone = hvt.add_process_set([0])
    right = True
    if hvt.rank() == 0:
        right = hvt.allreduce(torch.ones(5, device=DEVICE), op=hvt.Sum, process_set=alone, name="alone").sum().item() == 5
    hvt.remove_process_set(alone)
    return right, None


def join() -> Outcome:
    """Reduces on rank 0 after the others have joined. Their zeros are part of its sums and averages."""
    right = True
    if hvt.rank() == 0:
        ones = torch.ones(5, device=DEVICE)
        right = bool((hvt.allreduce(ones, op=hvt.Sum, name="more") == 1).all())
        right &= bool((hvt.allreduce(ones, op=hvt.Average, name="and more") == 1 / hvt.size()).all())
    last = hvt.join()
    return right and 0 <= last < hvt.size(), last


def compressions() -> Outcome:
    parts = numbers_of_ranks(torch.float32, 300_000, seed=4)
    errors, right = {}, True
    for name, limit in (("fp16", 2e-3), ("bf16", 2e-2), ("wire_fp16", 2e-3), ("wire_bf16", 2e-2), ("wire_int8", 5e-2)):
        got = hvt.allreduce(parts[hvt.rank()].to(DEVICE), op=hvt.Sum, compression=getattr(hvt.Compression, name), name=name)
        errors[name] = relative_error(got, reduced("Sum", parts))
        right &= errors[name] <= limit
    return right, errors


def checks() -> dict[str, Check]:
    return {
        "every type and operation": every_type,
        "same bits on all ranks": same_bits,
        "factors": factors,
        "allgather of uneven rows": gathered_rows,
        "alltoall with splits": exchanged_rows,
        "reducescatter of uneven rows": scattered_rows,
        "broadcast from the last rank": broadcast_from_last,
        "grouped allreduce": groups,
        "sparse allreduce": sparse_sum,
        "order on streams": order_on_streams,
        "161 small tensors, 20 times": many_small,
        "mistakes are errors on all ranks": mistakes,
        "process set": process_set,
        "join": join,
        "compressions": compressions,
    }
