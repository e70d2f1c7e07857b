"""Checks that two ranks can share memory of one GPU through CUDA's IPC, and measures how fast. libhvd does not use it yet.

It calls the CUDA runtime of HVD_CUDA_LIBRARY with ctypes, without torch."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable

import hvd
from gpukit.results import record

BYTES = 256 << 20
SIZE = ctypes.c_size_t(BYTES)
TO_HOST, FROM_HOST, ON_DEVICE = 2, 1, 3  # cudaMemcpyDeviceToHost, -HostToDevice and -DeviceToDevice
LAZY_PEER_ACCESS = 1

cuda = ctypes.CDLL(os.environ["HVD_CUDA_LIBRARY"])
cuda.cudaGetErrorString.restype = ctypes.c_char_p


class Handle(ctypes.Structure):
    """cudaIpcMemHandle_t."""

    _fields_ = [("reserved", ctypes.c_char * 64)]


def call(name: str, *arguments: object) -> None:
    status = getattr(cuda, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name}: {cuda.cudaGetErrorString(status).decode()} ({status})")


def problem_of(function: Callable[[], None]) -> str:
    """Calls the function. Returns the text of its exception; "" without one."""
    try:
        function()
    except Exception as error:
        return str(error)
    return ""


def all_without_problem(step: str, problem: str) -> bool:
    """Returns whether a step has worked on all ranks. If not, rank 0 records the problems."""
    problems = hvd.allgather_object(problem, name=step)
    if any(problems) and hvd.rank() == 0:
        record(step, False, problems)
    return not any(problems)


def speed(target: ctypes.c_void_p, source: ctypes.c_void_p, kind: int, times: int = 20) -> float:
    """Returns the speed of a copy in GB/s."""
    call("cudaMemcpyAsync", target, source, SIZE, kind, None)
    call("cudaDeviceSynchronize")
    start = time.perf_counter()
    for _ in range(times):
        call("cudaMemcpyAsync", target, source, SIZE, kind, None)
    call("cudaDeviceSynchronize")
    return round(BYTES * times / (time.perf_counter() - start) / 1e9, 1)


def mark_of(rank: int) -> int:
    """Returns the byte that fills a rank's memory."""
    return 40 + rank


class SharedMemory:
    """GPU memory of this rank, and the mapped memory of the other rank."""

    def __init__(self) -> None:
        self.own, self.mapped, self.handle = ctypes.c_void_p(), ctypes.c_void_p(), Handle()

    def allocate(self) -> None:
        call("cudaSetDevice", 0)
        call("cudaMalloc", ctypes.byref(self.own), SIZE)
        self.fill()

    def fill(self) -> None:
        call("cudaMemset", self.own, mark_of(hvd.rank()), SIZE)
        call("cudaDeviceSynchronize")

    def make_handle(self) -> None:
        call("cudaIpcGetMemHandle", ctypes.byref(self.handle), self.own)

    def open_other(self, handles: list[bytes]) -> None:
        other = Handle.from_buffer_copy(handles[1 - hvd.rank()])
        call("cudaIpcOpenMemHandle", ctypes.byref(self.mapped), other, LAZY_PEER_ACCESS)
        first = ctypes.c_ubyte()
        call("cudaMemcpy", ctypes.byref(first), self.mapped, ctypes.c_size_t(1), TO_HOST)
        if first.value != mark_of(1 - hvd.rank()):
            raise RuntimeError(f"reads {first.value}")

    def measure_alone(self) -> None:
        """Measures copies within this rank. Then fills its memory again."""
        host, second = ctypes.c_void_p(), ctypes.c_void_p()
        call("cudaMallocHost", ctypes.byref(host), SIZE)
        call("cudaMalloc", ctypes.byref(second), SIZE)
        record("copy on the device, GB/s read + written", None, 2 * speed(second, self.own, ON_DEVICE))
        record("to pinned host memory, GB/s", None, speed(host, self.own, TO_HOST))
        record("from pinned host memory, GB/s", None, speed(self.own, host, FROM_HOST))
        self.fill()


def main() -> None:
    memory = SharedMemory()
    if not all_without_problem("memory for IPC", problem_of(memory.allocate)):
        return
    if hvd.rank() == 0:
        memory.measure_alone()
    if not all_without_problem("cudaIpcGetMemHandle", problem_of(memory.make_handle)):
        return
    handles = hvd.allgather_object(bytes(memory.handle), name="handles")
    if not all_without_problem("memory of another rank on the same GPU, by cudaIpc", problem_of(lambda: memory.open_other(handles))):
        return
    if hvd.rank() == 0:
        record("memory of another rank on the same GPU, by cudaIpc", True, "both ranks read the other's byte")
        record("copy from the other rank's memory, GB/s read + written", None, 2 * speed(memory.own, memory.mapped, ON_DEVICE))
    hvd.allgather_object(0, name="end")  # the other rank must keep its memory until here


hvd.init()
main()
hvd.shutdown()
