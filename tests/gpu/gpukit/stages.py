"""The stages of tests/gpu/device, the most valuable first."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from gpukit.failures import run_failures
from gpukit.kit import PROGRAMS, Kit, own_name_resolves
from gpukit.report import check_report
from gpukit.results import record
from gpukit.runner import Stage

# Commands that print facts about the machine for readers of the results. They change nothing.
FACTS = (
    "date -u", "uname -a", "cat /etc/os-release", "ldd --version | head -n 1", "nvidia-smi",
    "nvidia-smi -q -d MEMORY,UTILIZATION,TEMPERATURE,COMPUTE,PERFORMANCE", "nvidia-smi topo -m",
    "nvidia-smi --query-gpu=name,uuid,pci.bus_id,driver_version,mig.mode.current,compute_mode,persistence_mode,temperature.gpu"
    " --format=csv,noheader",
    "nvcc --version | tail -n 2", "echo LD_LIBRARY_PATH=$LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-unset}",
    "ldconfig -p | grep -E 'libcuda|libcudart|libnccl|libnvidia-ml|libpmix|libhwloc|libssl'",
    "ls -l /usr/local/cuda /usr/local/nvidia", "cat /proc/self/cgroup /proc/sys/kernel/yama/ptrace_scope", "id",
    "grep -E 'Cap|Seccomp' /proc/self/status", "nproc", "lscpu | head -n 25", "free -g", "df -h /dev/shm /tmp .", "ip -br address",
    "getent hosts $(hostname)", "grep -l 0x10de /sys/bus/pci/devices/*/vendor | xargs -r dirname | sed 's/$/\\/numa_node/' | xargs -r"
    " grep -H .", "hvdrun --version", "hvdrun --check-build", "dmesg | grep -iE 'nvrm|xid' | tail -n 20",
)
FIND_LIBRARIES = ("find / -xdev \\( -name 'libnccl.so*' -o -name 'libcudart.so*' -o -name 'libnvidia-ml.so*' -o -name 'libcuda.so*' \\)"
                  " -not -path '/proc/*' 2>/dev/null")
CASES = Path("tests/python/cases")
CASE_GROUPS = (("collectives", "errors", "functions", "autograd", "process_sets", "adasum"), ("optimizer", "sync_batch_norm"),
               ("sharded", "gossip"), ("local_sgd", "diloco"), ("parameter_server",))


def facts(kit: Kit) -> None:
    """Records facts about the machine. The import of torch takes long on a cold disk, so this stage has the time for it."""
    with open(kit.out / "facts.txt", "w") as file:
        for command in (*FACTS, FIND_LIBRARIES) if kit.gpu else FACTS:
            done = kit.runner.run(["sh", "-c", command], limit=15)
            file.write(f"$ {command}\n{done.text}\n")
        versions = kit.runner.run([sys.executable, PROGRAMS / "facts.py"])
        file.write(versions.text + "\n")
    kit.measure("Python and its packages", versions, 8)
    name = kit.runner.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], limit=15)
    record("GPU", True if kit.gpu else None, name.last(1))
    record("this host's own name resolves", None, own_name_resolves())
    kit.expect("hvdrun runs", kit.runner.run(["hvdrun", "--version"]), 1)


def dry_run(kit: Kit, *options: str, visible: str | None = None) -> list[str]:
    """Returns the lines of a dry run. Sets CUDA_VISIBLE_DEVICES if `visible` is given."""
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return kit.runner.run(["hvdrun", "--dry-run", *options, "true"], environment=environment).lines


def nvml(kit: Kit) -> None:
    """Checks and records which GPUs hvdrun finds through NVML."""
    if kit.gpu:
        asked = kit.runner.run(["nvidia-smi", "--query-gpu=name,uuid", "--format=csv,noheader"], limit=15).last(1)
        name, uuid = (asked.split(", ") + [""])[:2]
        record("dry run names the GPU", name in "\n".join(dry_run(kit)), dry_run(kit)[-1:], name)
        refused = kit.runner.run(["hvdrun", "--dry-run", "-np", "2", "true"])
        record("-np 2 on one GPU is refused", refused.code != 0, refused.last(1))
        for visible in ("", "0", uuid, "7"):
            record(f"dry run with CUDA_VISIBLE_DEVICES={visible}", None, dry_run(kit, visible=visible)[-2:])
        single = kit.job(1, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", options=("--gpu-bind", "single"))
        kit.measure("CUDA_VISIBLE_DEVICES with --gpu-bind single", single, 4)
    kit.expect("dry run of two ranks", kit.runner.run(["hvdrun", "--dry-run", "--oversubscribe", "-np", "2", "true"]))
    kit.expect("python3 -m hvd", kit.runner.run([sys.executable, "-m", "hvd"]))
    codes, seconds = [], []
    for _ in range(5):
        begin = time.monotonic()
        codes.append(kit.runner.run(["hvdrun", "true"]).code)
        seconds.append(time.monotonic() - begin)
    record("hvdrun true", not any(codes))
    record("hvdrun true: median of 5", None, f"{statistics.median(seconds):.3f} s")


def check_one(kit: Kit) -> None:
    """Runs gpu_check with one rank, with two ranks that share the device, and with twins, which use NCCL."""
    count = 1 << 20 if kit.gpu else 20_000  # the doubles have little memory
    kit.expect("gpu_check, one rank", kit.job(1, "gpu_check", "check", count, limit=40))
    for twins, words in ((False, "two ranks that share the GPU"), (True, "twins, by NCCL")):
        environment = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(kit.work / "nccl.%p.log")} if twins else {}
        done = kit.job(2, "gpu_check", "check", count // 10 if twins else count, twins=twins, limit=60, environment=environment)
        kit.expect(f"gpu_check, {words}", done)
        by_host = "share a GPU" in done.text
        record(f"gpu_check, {words}: through {'NCCL' if twins else 'host memory'}", by_host is not twins, by_host)
    calls, size = (500, 64 << 20) if kit.gpu else (2, 300)
    kit.measure("gpu_check bench, one rank", kit.job(1, "gpu_check", "bench", calls, size), 6)
    kit.measure("gpu_check copies", kit.job(1, "gpu_check", "copies", 1 << 30 if kit.gpu else 1 << 20), 1)
    if kit.gpu:
        not_blocking = kit.job(1, "gpu_check", "bench", 200, 16 << 10, environment={"NCCL_COMM_BLOCKING": "0"})
        kit.measure("the same, with calls of NCCL that do not block, as libhvd's with several ranks", not_blocking, 4)
        kit.measure("gpu_check bench, twins", kit.job(2, "gpu_check", "bench", 10, 1 << 20, twins=True, limit=40), 4)


def join(kit: Kit) -> None:
    """Checks that one rank can call join while another one reduces tensors of the device."""
    for twins in (False, True):
        kit.expect(f"gpu_check join{', twins' if twins else ''}", kit.job(2, "gpu_check", "join", twins=twins, limit=20))


def probe(kit: Kit, ranks: int, twins: bool = False) -> None:
    kit.rank_program(ranks, "probe.py", twins=twins)


def report(kit: Kit) -> None:
    """Checks the GPU figures in hvdrun's report of a rank that computes for 5 s with 4 GiB."""
    file = kit.work / "report.json"
    done = kit.job(1, sys.executable, PROGRAMS / "busy.py", options=("--pmix", "off", "--report", str(file)))
    kit.expect("a job with a report", done)
    if file.exists():
        check_report(file)


def ddp(kit: Kit) -> None:
    """Unmodified programs of torch.distributed."""
    kit.rank_program(1, "ddp.py", "nccl" if kit.gpu else "gloo")
    kit.rank_program(2, "ddp.py", "gloo")
    if kit.gpu:
        kit.rank_program(2, "ddp.py", "nccl", twins=True)


def losses_of(lines: list[str]) -> list[float]:
    return [float(found[1]) for line in lines if (found := re.search(r"epoch .* loss ([0-9.]+) ", line))]


def digits(kit: Kit) -> None:
    """Checks that digits_cuda has the losses of digits on the CPU."""
    program = kit.built / "bin/examples/digits"
    wanted = losses_of(kit.job(1, program, "--epochs", 5, limit=20, folder=kit.work).lines)
    record("digits: five losses", len(wanted) == 5, wanted)
    libraries = Path(os.environ.get("HVD_CUDA_LIBRARY", "/usr/local/cuda/lib64/libcudart.so")).parent
    if not (libraries / "libcublas.so.13").exists():
        record("digits_cuda", None, f"left out: no libcublas.so.13 in {libraries}")
        return
    for ranks, twins in ((1, False), (2, False), (2, True)):
        done = kit.job(ranks, f"{program}_cuda", "--epochs", 5, twins=twins, limit=20, folder=kit.work,
                       environment={"LD_LIBRARY_PATH": str(libraries)})
        got = losses_of(done.lines)
        same = len(got) == len(wanted) and all(abs(a - b) <= 1e-5 * b for a, b in zip(got, wanted))
        record(f"digits_cuda, ranks: {ranks}{', twins' if twins else ''}: the losses of digits", same and bool(got),
               got or done.last(3), wanted)


def bench(kit: Kit) -> None:
    kit.rank_program(1, "bench.py", "one")
    kit.rank_program(2, "bench.py", "share")
    kit.rank_program(2, "bench.py", "twin", twins=True)


def ipc(kit: Kit) -> None:
    kit.rank_program(2, "ipc.py")


def case_files(kit: Kit, names: tuple[str, ...]) -> list[Path]:
    return [kit.top / CASES / f"torch_{name}.py" for name in names]


def case_seconds(kit: Kit, most: float) -> int:
    """Returns the seconds during which cases may begin, so that the last one can end in time."""
    return round(max(1.0, min(most * kit.runner.patience, kit.runner.seconds_left() - 15)))


def cases_share(kit: Kit) -> None:
    """Runs the cases of tests/python with all tensors on the GPU, in several jobs at once."""
    kit.together(*(partial(kit.rank_program, 2, "cases.py", case_seconds(kit, 50), *case_files(kit, group)) for group in CASE_GROUPS))


def cases_twins(kit: Kit) -> None:
    """Runs the cases as twins, one after the other, until the time limit."""
    names = tuple(name for group in CASE_GROUPS for name in group)
    kit.rank_program(2, "cases.py", case_seconds(kit, 60), *case_files(kit, names), twins=True)


def sanitizer(kit: Kit) -> None:
    """Runs libhvd's own kernels under NVIDIA's compute-sanitizer."""
    if not shutil.which("compute-sanitizer"):
        record("compute-sanitizer", None, "left out: not installed")
        return
    options = ("--error-exitcode", "9", "--kernel-name", "regex:hvd_")
    program = (kit.built / "bin/gpu_check", "check", 20_000)
    for tool in ("memcheck", "initcheck", "racecheck", "synccheck"):
        done = kit.runner.run(["compute-sanitizer", "--tool", tool, *options, *program], limit=40)
        kit.expect(f"compute-sanitizer {tool}", done)


def profile(kit: Kit) -> None:
    """Measures what part of the memory's bandwidth the packing kernel reaches. It does not lock the clocks."""
    if not shutil.which("ncu"):
        record("ncu", None, "left out: not installed")
        return
    metrics = ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "gpu__time_duration.sum", "dram__bytes.sum",
               "sm__warps_active.avg.pct_of_peak_sustained_active", "l1tex__t_bytes.sum")
    done = kit.runner.run(["ncu", "--clock-control", "none", "-k", "regex:hvd_copy", "-c", "3", "--metrics", ",".join(metrics),
                           kit.built / "bin/gpu_check", "copies", 256 << 20], limit=40)
    found = [re.sub(" +", " ", line.strip()) for line in done.lines if re.search("hvd_copy|dram|duration|warps|bytes", line)]
    record("ncu of the packing kernel", None if found else False, "; ".join(found) or done.last(3))


def with_jax(kit: Kit) -> None:
    options = ("--for", "jax", *kit.options)
    variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_PLATFORMS": "cuda" if kit.gpu else "cpu"}
    on_cpus = {**variables, "JAX_PLATFORMS": "cpu"}
    kit.rank_program(1, "jax_sum.py", options=options, environment=variables)
    if own_name_resolves():
        kit.rank_program(2, "jax_sum.py", options=options, environment=on_cpus)
    else:
        record("jax, 2 ranks on CPUs", None, "left out: JAX needs this host's own name, which does not resolve")
    if kit.gpu:
        kit.rank_program(2, "jax_sum.py", options=options, environment=variables, twins=True)


def frameworks(kit: Kit) -> None:
    """Runs programs of tests/frameworks with one rank each, on the GPU if the machine has one."""
    folder = kit.top / "tests/frameworks/programs"
    for name in ("lightning_fit", "transformers_trainer"):
        program = (folder / f"{name}.py").read_text()
        if kit.gpu:
            program = program.replace('accelerator="cpu"', 'accelerator="auto"').replace("use_cpu=True, ", "")
        # If mpi4py is installed without an MPI library, Lightning fails under every launcher.
        (kit.work / f"{name}.py").write_text("import sys\n\nsys.modules['mpi4py'] = None\n" + program)
        kit.expect(f"{name}, one rank", kit.job(1, sys.executable, f"{name}.py", limit=45, folder=kit.work))
    options = ("--for", "accelerate", *kit.options)
    kit.expect("accelerate, one rank", kit.job(1, sys.executable, folder / "accelerate_gather.py", options=options, limit=40))


STAGES = (
    Stage("facts", 90, facts),
    Stage("nvml", 25, nvml),
    Stage("check_one", 130, check_one, ("a device",)),
    Stage("join", 40, join, ("a device",)),
    Stage("probe_twins", 110, partial(probe, ranks=2, twins=True), ("torch",)),
    Stage("failures", 110, run_failures, ("torch",)),
    Stage("probe_share", 60, partial(probe, ranks=2), ("torch",)),
    Stage("report", 30, report, ("a GPU",)),
    Stage("ipc", 25, ipc, ("a GPU",)),
    Stage("ddp", 60, ddp, ("torch",)),
    Stage("digits", 25, digits, ("a GPU",)),
    Stage("bench", 90, bench, ("torch 2",)),
    Stage("cases_share", 75, cases_share, ("torch 2",)),
    Stage("sanitizer", 70, sanitizer, ("a GPU",)),
    Stage("profile", 45, profile, ("a GPU",)),
    Stage("cases_twins", 95, cases_twins, ("torch 2",)),
    Stage("with_jax", 60, with_jax, ("jax",)),
    Stage("frameworks", 90, frameworks, ("lightning", "transformers", "accelerate")),
    Stage("probe_one", 50, partial(probe, ranks=1), ("torch",)),
)
