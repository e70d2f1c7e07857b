"""Why a job hangs: hvdrun names the rank that the others wait for, and the line that it is in."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from asking import ask_until, end
from harness import (BUILD, HVDRUN, PYTHON, Running, Sandbox, environment_of, process_state, program, python_environment, read_bytes,
                     wait_until)

# Ranks meet in a collective, and rank 1 does something else before the last one.
HVD = """\
import ctypes, os, queue, signal, socket, sys, threading, time
import numpy as np
import hvd
import hvd.numpy
hvd.init()
rank = hvd.rank()
def meet():
    hvd.numpy.allreduce(np.ones(4), name="grad/layer3")
def other():
    BODY
for _ in range(5):
    meet()
print("ready", flush=True)
if rank == 1:
    other()
meet()
"""
TORCH = """\
import os, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
def meet():
    dist.all_reduce(torch.ones(4))
def other():
    BODY
for _ in range(5):
    meet()
print("ready", flush=True)
if rank == 1:
    other()
meet()
time.sleep(1000)
"""
MPI = """\
import time
from mpi4py import MPI
import numpy as np
comm = MPI.COMM_WORLD
rank = comm.Get_rank()
def meet():
    comm.Allreduce(np.ones(4), np.zeros(4))
def other():
    BODY
for _ in range(5):
    meet()
print("ready", flush=True)
if rank == 1:
    other()
meet()
"""
PLAIN = """\
import os, socket, sys, time
rank = int(os.environ["RANK"])
def meet():
    time.sleep(1000)
def other():
    BODY
print("ready", flush=True)
if rank == 1:
    other()
meet()
"""
SILENT_FUSE = Path(__file__).with_name("silent_fuse.py")
# Ranks sum on their GPUs with NCCL; both are doubles. ENDLESS() begins a kernel that never ends.
GPU = """\
import ctypes, os, time
cuda, nccl = (ctypes.CDLL(os.environ[f"HVD_{name}_LIBRARY"]) for name in ("CUDA", "NCCL"))
rank, size, file = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "FOLDER/id"
class Id(ctypes.Structure): _fields_ = [("bytes", ctypes.c_char * 128)]
class Config(ctypes.Structure): _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("blocking", ctypes.c_int)]
unique, comm, memory, status = Id(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(7)
def ENDLESS(): cuda.cudaLaunchHostFunc(None, ctypes.CDLL(None).pause, None)
def done():
    while status.value == 7: nccl.ncclCommGetAsyncError(comm, ctypes.byref(status))
    status.value = 7
def meet():
    nccl.ncclAllReduce(memory, memory, 1, 7, 0, comm, None); done()
    cuda.cudaStreamSynchronize(None)
def other():
    BODY
cuda.cudaSetDevice(rank)
cuda.cudaMalloc(ctypes.byref(memory), 4)
if rank == 0:
    nccl.ncclGetUniqueId(ctypes.byref(unique))
    open(file + ".new", "wb").write(bytes(unique)); os.rename(file + ".new", file)
while not os.path.exists(file): time.sleep(0.01)
unique = Id.from_buffer_copy(open(file, "rb").read())
nccl.ncclCommInitRankConfig(ctypes.byref(comm), size, unique, rank, ctypes.byref(Config(24, 0xcafebeef, 22809, 0))); done()
for _ in range(5): meet()
print("ready", flush=True)
if rank == 1:
    other()
meet()
"""
BODY_LINE = {GPU: 15, HVD: 10, TORCH: 9, MPI: 9, PLAIN: 6}
HELD_MUTEX = """libc = ctypes.CDLL(None); lock = ctypes.create_string_buffer(64); held = threading.Event()
    def hold():
        libc.pthread_mutex_lock(lock); held.set(); time.sleep(1000)
    threading.Thread(target=hold, daemon=True).start(); held.wait(); libc.pthread_mutex_lock(lock)"""
QUEUE = """items = queue.Queue()
    def load(): items.put(os.read(os.pipe()[0], 1))
    threading.Thread(target=load, daemon=True).start(); items.get()"""
DEAD_WORKER = """import multiprocessing
    results = multiprocessing.Queue(); worker = multiprocessing.Process(target=os._exit, args=(3,)); worker.start(); results.get()"""
CROSSED = """dist.recv(torch.ones(4), 0)
if rank == 0:
    for _ in range(5): meet()
    print("ready", flush=True)
    dist.recv(torch.ones(4), 1)"""
MANY_THREADS = """
    for _ in range(200): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    time.sleep(1000)"""


@dataclass
class Row:
    text: str                    # of the program
    body: str                    # what rank 1 does
    words: tuple[str, ...] = ()  # of the verdict
    line: int = 0                # of the body that it is in
    ranks: int = 3
    blamed: tuple[int, ...] = (1,)
    kind: str = "hangs"
    quick: bool = False


ROWS = {
    "sleeps in Python": Row(HVD, "time.sleep(1000)", ("has not come to allreduce \"grad/layer3\" (call 6)", "sleeping"), quick=True),
    "loops in Python": Row(HVD, "while True: pass", ("slow, or loops",), kind="slow"),
    "loops in C": Row(HVD, "sum(iter(int, 1))", ("slow, or loops",), kind="slow"),
    "waits for Python's lock": Row(HVD, "lock = threading.Lock(); lock.acquire(); lock.acquire()", ("waiting for another thread",)),
    "waits for a mutex": Row(HVD, HELD_MUTEX, ("a mutex that thread", "which is in train.py:12 hold()"), line=3),
    "waits for its own thread": Row(HVD, QUEUE, ("waiting for another thread", "; its other thread is in train.py:11 load(), waiting for fd"), line=2),
    "waits for a pipe": Row(HVD, "os.read(os.pipe()[0], 1)", ("waiting for fd", "pipe")),
    "waits for a socket": Row(HVD, "pair = socket.socketpair(); pair[0].recv(1)", ("waiting for fd", "socket")),
    "waits for a worker that has died": Row(HVD, DEAD_WORKER, ("its child", "has ended"), line=1),
    "is stopped": Row(HVD, "os.kill(os.getpid(), signal.SIGSTOP)", ("stopped by a signal",)),
    "has 200 threads": Row(HVD, MANY_THREADS, ("sleeping",), line=2),
    "computes while torch waits": Row(TORCH, "while True: pass", ("2 ranks are in all_reduce, called from train.py:7", "slow, or loops"),
                                      kind="slow"),
    "sleeps while torch waits": Row(TORCH, "time.sleep(1000)", ("2 ranks are in all_reduce, called from train.py:7; rank 1 is in",),
                                    quick=True),
    "is in another collective": Row(TORCH, "dist.broadcast(torch.ones(4), 1); dist.barrier()", ("ranks 0,2 are in all_reduce", "rank 1 is in broadcast", "they wait for each other")),
    "two ranks call in another order": Row(TORCH, CROSSED,
                                           ("recv",), ranks=2, blamed=(0, 1)),
    "sleeps while MPI waits": Row(MPI, "time.sleep(1000)", ("2 ranks are in MPI_Allreduce, called from train.py:7; rank 1 is in",)),
    "sleeps in a plain program": Row(PLAIN, "time.sleep(500)", ("rank 1 is in",), quick=True),
    "sleeps while GPUs wait": Row(GPU, "time.sleep(1000)", ("2 ranks wait for their GPUs, in train.py:13 meet(); rank 1 is in", "sleeping")),
    "waits for a kernel that does not end": Row(GPU, "ENDLESS(); cuda.cudaStreamSynchronize(None)", (
        "ranks 0,2 are in train.py:13 meet(), waiting for the GPU (cudaStreamSynchronize)",
        "rank 1 is in train.py:15 other(), waiting for the GPU (cudaStreamSynchronize)", "a GPU computes, or a rank has not come to a collective of the others"), kind="slow"),
    "has begun a kernel that does not end": Row(GPU, "ENDLESS()", (
        "3 ranks wait for their GPUs, in train.py:13 meet(); a GPU computes, or a rank has not come to a collective of the others",), line=-1,
        blamed=(), kind="slow"),
    "has given another shape": Row(TORCH, "dist.all_reduce(torch.ones(1))",
                                   ("all 3 ranks are in all_reduce, called from train.py:7", "none is missing: they may have given it other shapes"),
                                   line=-1, blamed=(0, 1, 2)),
    "has left": Row(PLAIN, "sys.exit(0)", ("train.py:4 meet(), sleeping", "rank 1 has ended (exit code 0)"), line=-1),
}


def write(sandbox: Sandbox, text: str, body: str) -> Path:
    script = sandbox.files / "train.py"
    script.write_text(text.replace("BODY", body).replace("FOLDER/", f"{sandbox.files}/"))
    return script


def doubles() -> dict[str, str]:
    """The doubles of a GPU's libraries. As with CUDA, waiting for a GPU uses a processor."""
    folder = BUILD / "lib/doubles"
    return {"HVD_CUDA_LIBRARY": f"{folder}/libcudart.so.13", "HVD_NCCL_LIBRARY": f"{folder}/libnccl.so.2",
            "HVD_CUDA_DRIVER": f"{folder}/libcuda.so.1", "LD_LIBRARY_PATH": str(folder), "HVD_DOUBLE_SPINS": "1"}


def start(sandbox: Sandbox, row: Row, *options: object) -> Running:
    script = write(sandbox, row.text, row.body)
    job = sandbox.start("-np", row.ranks, *options, PYTHON, script, env={**python_environment(), **(doubles() if row.text == GPU else {})})
    wait_until(lambda: job.out.count(b"ready") == row.ranks or job.process.poll() is not None, "the ranks to begin")
    return job


@pytest.mark.parametrize("name", [name if row.quick else pytest.param(name, marks=pytest.mark.slow) for name, row in ROWS.items()])
def test_the_rank_and_the_line_are_named(name: str, sandbox: Sandbox) -> None:
    row = ROWS[name]
    job = start(sandbox, row, "--grace", "200ms")
    place = () if row.line < 0 else (f"train.py:{BODY_LINE[row.text] + row.line}",)
    ask_until(job, (*place, *row.words))
    hang = end(job)
    assert hang["blamed"] == list(row.blamed), hang
    assert hang["kind"] == row.kind, hang


@pytest.mark.slow
def test_the_rank_whose_gpu_is_late_is_named(sandbox: Sandbox) -> None:
    """libhvd sees from events that the GPU has not come to the collective."""
    job = sandbox.start("-np", 3, "-H", "localhost:3", "--grace", "200ms", "--stall-check-warning-time-seconds", "0.5",
                        program("gpu_waiter"), sandbox.files / "never", env=doubles())
    job.wait_for(b"has waited", "err")
    ask_until(job, ('rank 2 has not come to allreduce "grad", for which 2 ranks have waited', "it is in main(), waiting for the GPU",
                    "the GPU is slow, or its work has no end"))
    assert end(job)["blamed"] == [2]


# What a rank does with a file system that does not answer, the line of that, what hvdrun says, and the rank's state.
READ_TWICE = """reader = threading.Thread(target=lambda: open(FOLDER + "/data").read(), daemon=True); reader.start()
    while not open(f"/proc/self/task/{reader.native_id}/syscall").read().startswith("0 "): time.sleep(0.01)
    open(FOLDER + "/data")"""
SILENT = {
    "reads": ('open(FOLDER + "/data").read()', 0, ("waiting for the file system (fuse.silent) of fd", "/data"), "S"),
    "opens": ('open(FOLDER + "/lost")', 0, ("waiting for the file system (fuse.silent) of /", "/lost"), "S"),
    "needs a page": ('import mmap; mmap.mmap(os.open(FOLDER + "/data", os.O_RDONLY), 4096, prot=mmap.PROT_READ)[0]', 0,
                     ("waiting for a page of a file or of swap",), "S"),
    "is in state D": (READ_TWICE, 2, ("waiting for the file system (fuse.silent) of /", "/data"), "D"),
}


@pytest.mark.parametrize("does", [name if name == "reads" else pytest.param(name, marks=pytest.mark.slow) for name in SILENT])
def test_a_rank_that_waits_for_a_file_system_is_named(does: str, sandbox: Sandbox) -> None:
    """A look does not interrupt the wait: the kernel would send the server an interrupt, and then wait in state D. The
    job ends with the file system, because the server is the rank's child."""
    if not sandbox.isolated:
        pytest.skip("only root may mount a file system that does not answer")
    body, line, words, state = SILENT[does]
    folder = sandbox.files / "mnt"
    folder.mkdir()
    server = [PYTHON, str(SILENT_FUSE), str(folder)]
    mount = f"import subprocess, threading; FOLDER = {str(folder)!r}; subprocess.Popen({server}, stdout=subprocess.PIPE).stdout.readline()"
    job = start(sandbox, Row(PLAIN, f"{mount}; {body}"), "--grace", "200ms")
    wait_until(lambda: (sandbox.files / "mnt.asked").exists() and process_state(sandbox.ranks()[1]) == state, "the wait for the file system")
    ask_until(job, (f"rank 1 is in train.py:{6 + line} other(), {words[0]}", *words[1:]))
    assert process_state(sandbox.ranks()[1]) == state
    assert end(job)["blamed"] == [1]


def test_why_answers_from_another_terminal(sandbox: Sandbox) -> None:
    row = ROWS["sleeps in a plain program"]
    job = start(sandbox, row, "--grace", "200ms")
    sent: list[str] = []

    def why(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([HVDRUN, "why", *map(str, words)], capture_output=True, text=True, timeout=60, env=sandbox.environment())

    def is_answered() -> bool:
        """The socket opens a moment after the start."""
        done = why(job.pid)
        sent.append(done.stdout + done.stderr)
        return done.returncode == 0 and done.stdout.startswith("rank 1 is in train.py:6 other(), sleeping")

    wait_until(is_answered, "the answer", 30)
    assert re.search(r"^rank 1 on .*, pid \d+ \(python3\): sleeping in", sent[-1], re.MULTILINE), sent
    verdict = json.loads(why("--json", job.pid).stdout)
    assert verdict["blamed"] == [1] and verdict["kind"] == "hangs", verdict
    end(job)


def test_of_a_rank_that_forbids_ptrace_the_rest_is_shown_and_the_job_continues(sandbox: Sandbox) -> None:
    """Such are programs that have other rights than their user, and those in a container's filter. Root must give up its own right."""
    script = write(sandbox, HVD, 'ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE\n    print("forbids", flush=True)\n'
                                 '    while not os.path.exists("go"): time.sleep(0.02)')
    tool = sandbox.files / "hvdrun"
    tool.write_text(f'#!/bin/sh\nexec setpriv {"--bounding-set -sys_ptrace" if os.geteuid() == 0 else ""} {HVDRUN} "$@"\n')
    tool.chmod(0o755)
    job = sandbox.start("-np", 2, PYTHON, script, env=python_environment(), tool=tool)
    job.wait_for(b"forbids")
    job.wait_for(b"[0] ready")
    said = ""

    def is_named() -> bool:
        nonlocal said
        said = subprocess.run([HVDRUN, "why", str(job.pid)], capture_output=True, text=True, timeout=60, env=sandbox.environment()).stdout
        return said.startswith('rank 1 has not come to allreduce "grad/layer3" (call 6), for which rank 0 has waited ')

    wait_until(is_named, "the verdict", 30)
    assert f"train.py:{BODY_LINE[HVD] - 2}" in said, said
    assert re.search(r"no stacks: (it has other rights than this one|kernel\.yama\.ptrace_scope is)", said), said
    (sandbox.files / "go").touch()
    job.wait().expect(0)


@pytest.mark.slow
def test_an_agent_that_is_stopped_is_named_with_its_ranks(sandbox: Sandbox) -> None:
    job = start(sandbox, ROWS["sleeps in a plain program"], "--grace", "200ms")
    agent = job.helper("hvdrun-agent")
    os.kill(agent, signal.SIGSTOP)
    answers: list[subprocess.CompletedProcess[str]] = []

    def is_answered() -> bool:
        """The socket opens a moment after the start."""
        answers.append(subprocess.run([HVDRUN, "why", str(job.pid)], capture_output=True, text=True, timeout=60, env=sandbox.environment()))
        return answers[-1].returncode == 0

    wait_until(is_answered, "the answer", 30)
    done = answers[-1]
    os.kill(agent, signal.SIGCONT)
    assert done.returncode == 0 and done.stdout.startswith("nothing could be seen of the ranks\n"), done
    assert f": its hvdrun-agent is stopped; kill -CONT {agent} continues it; its ranks are missing here: 0-2\n" in done.stdout, done
    end(job)


def test_of_more_ranks_than_are_looked_at_the_one_that_differs_is_shown(sandbox: Sandbox) -> None:
    """A host has a limit of 64. Nothing is in a collective here: rank 65 computes, and the others sleep."""
    job = sandbox.start("-np", 66, "--oversubscribe", "--grace", "0.3", "sh", "-c",
                        'touch up$RANK; if [ $RANK = 65 ]; then while :; do :; done; else exec sleep 1000; fi')
    wait_until(lambda: len(list(sandbox.files.glob("up*"))) == 66, "all ranks")
    asked = subprocess.run([HVDRUN, "why", str(job.pid)], capture_output=True, text=True, timeout=60, env=sandbox.environment())
    job.signal(signal.SIGTERM)
    job.wait()
    assert asked.returncode == 0 and "rank 65" in asked.stdout, asked
    assert re.search(r"not seen: \S+: .*\(sleeping\).* not looked at", asked.stdout), asked


def why(sandbox: Sandbox, job: Running) -> dict:
    done = subprocess.run([HVDRUN, "why", "--json", str(job.pid)], capture_output=True, text=True, timeout=60, env=sandbox.environment())
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def test_ranks_that_communicate_all_the_time_do_not_hang(sandbox: Sandbox) -> None:
    """Also not after one of them was lost, and the others have continued."""
    job = sandbox.start("-np", 3, "--min-np", 1, "--grace", "200ms", BUILD / "bin/examples/digits", "--epochs", 1000000)
    wait_until(lambda: sandbox.ranks().get(2, 0) and why(sandbox, job)["text"].startswith("no rank has waited long in a collective; "),
               "the training", 20)
    os.kill(sandbox.ranks()[2], signal.SIGKILL)
    job.wait_for(b"2 ranks continue", "err")
    wait_until(lambda: why(sandbox, job)["text"].startswith("no rank has waited long in a collective; "), "the training without rank 2", 20)
    job.signal(signal.SIGTERM)
    job.wait()


@pytest.mark.slow
def test_ranks_of_torch_that_communicate_all_the_time_are_not_said_to_hang(sandbox: Sandbox) -> None:
    job = start(sandbox, Row(TORCH.replace("if rank == 1:\n    other()\nmeet()", "while True: meet()"), "pass", ()), "--grace", "200ms")
    wait_until(lambda: why(sandbox, job)["text"].endswith("; they wake often: the job probably continues"), "the verdict", 20)
    job.signal(signal.SIGTERM)
    job.wait()


def test_a_wait_continues_when_hvdrun_looks_again(sandbox: Sandbox) -> None:
    """A look wakes the threads that it stops."""
    job = start(sandbox, ROWS["sleeps in a plain program"], "--grace", "200ms")

    def waited() -> float:
        done = subprocess.run([HVDRUN, "why", str(job.pid)], capture_output=True, text=True, timeout=60, env=sandbox.environment())
        found = re.match(r"rank 1 is in train\.py:6 other\(\), sleeping for ([0-9.]+) s", done.stdout)
        return float(found[1]) if found else 0

    looks: list[tuple[float, float, float]] = []  # begin, waited, end

    def is_shown_thrice() -> bool:
        looks.append((time.monotonic(), waited(), time.monotonic()))
        return len(looks) >= 3 and all(seconds > 0 for _, seconds, _ in looks[-3:])

    wait_until(is_shown_thrice, "three looks", 30)
    (_, first, after), *_, (before, last, _) = looks[-3:]
    rounding = 0.2 if last < 10 else 1  # a time below 10 s has one digit, others have none
    assert last - first > 0.8 * (before - after) - rounding, looks
    end(job)


def test_a_quiet_job_is_ended_with_the_verdict(sandbox: Sandbox) -> None:
    job = start(sandbox, ROWS["sleeps in a plain program"], "--quiet-timeout", "2", "--grace", "200ms")
    done = job.wait().expect(124)
    assert "(--quiet-timeout)" in done.err_text and "rank 1 is in train.py:6 other(), sleeping" in done.err_text, done
    assert done.report["hang"]["blamed"] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.03, 1])
def test_a_job_that_computes_is_not_quiet(share: float, sandbox: Sandbox) -> None:
    sandbox.run("-np", 2, "--quiet-timeout", "2", PYTHON, "-c",
                f"import os, time; end = time.monotonic() + 5\n"
                f"while os.environ['RANK'] == '0' and time.monotonic() < end:\n"
                f"    until = time.process_time() + 0.5 * {share}\n"
                f"    while time.process_time() < until: pass\n"
                f"    time.sleep(0.5 * (1 - {share}))\n"
                f"time.sleep(max(0, end - time.monotonic()))").expect(0)


@pytest.fixture
def throttled(sandbox: Sandbox) -> Iterator[Path]:
    """A control group (version 1) whose processes get a twentieth of a processor."""
    group = Path(f"/sys/fs/cgroup/cpu/hvdtest-{sandbox.cookie}")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("needs the right to make a control group of the processor")
    (group / "cpu.cfs_quota_us").write_text("5000")
    yield group
    (group / "cpu.cfs_quota_us").write_text("-1")
    wait_until(lambda: not read_bytes(group / "cgroup.procs"), "the end of the ranks")
    group.rmdir()


@pytest.mark.slow
def test_a_throttled_rank_is_named_and_is_only_slow(throttled: Path, sandbox: Sandbox) -> None:
    job = start(sandbox, ROWS["loops in Python"], "--grace", "200ms")
    (throttled / "cgroup.procs").write_text(str(sandbox.ranks()[1]))
    ask_until(job, ("rank 1 has not come to allreduce", f"train.py:{BODY_LINE[HVD]}", "its control group was throttled", "it is slow, or loops"))
    hang = end(job)
    assert hang["blamed"] == [1] and hang["kind"] == "slow", hang


def test_a_program_below_a_script_that_is_the_program_is_found(sandbox: Sandbox) -> None:
    script = write(sandbox, PLAIN, "time.sleep(500)")
    launch = sandbox.files / "run.sh"
    launch.write_text(f"#!/bin/sh\n{PYTHON} {script}\ntrue\n")
    launch.chmod(0o755)
    job = sandbox.start("-np", 2, "--grace", "200ms", launch)
    wait_until(lambda: job.out.count(b"ready") == 2, "the ranks to begin")
    ask_until(job, ("rank 1 is in train.py:6 other(), sleeping",))
    end(job)


@pytest.mark.slow
def test_a_program_below_a_shell_is_found_and_a_debugger_is_named(sandbox: Sandbox) -> None:
    script = write(sandbox, PLAIN, "time.sleep(500)")
    job = sandbox.start("-np", 2, "--grace", "200ms", "sh", "-c", f"{PYTHON} {script}; true")
    wait_until(lambda: job.out.count(b"ready") == 2, "the ranks to begin")
    ask_until(job, ("rank 1 is in train.py:6 other(), sleeping",))
    if shutil.which("gdb") is not None:
        [pid] = [pid for pid in job.descendants() if environment_of(pid).get("RANK") == "0" and read_bytes(f"/proc/{pid}/comm") == b"python3\n"]
        debugger = subprocess.Popen(["gdb", "-nx", "-q", "-p", str(pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        wait_until(lambda: process_state(pid) == "t", "gdb to stop the process")
        ask_until(job, ("rank 0 is in train.py:4 meet(), stopped by a debugger (gdb",))
        debugger.kill()
        debugger.wait()
    end(job)


@pytest.mark.slow
def test_a_c_program_is_described_without_python(sandbox: Sandbox) -> None:
    for mode, words in (("mutex", "is in main(), waiting in the system call pause"), ("loop", "loop_in_c"), ("socket", "waiting for fd"), ("hang", "hanging in the kernel")):
        job = sandbox.start("-np", 1, "--grace", "200ms", program("look_victim"), mode, stdin=subprocess.PIPE)
        job.wait_for(b"ready")
        ask_until(job, (words,))
        job.process.stdin.close()
        job.signal(signal.SIGTERM)
        job.wait()
