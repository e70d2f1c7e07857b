"""The steps of ./check: what each runs, and when. The order of the list is the order in which they run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import check_python
import check_tidy
from check_run import Failure, Log, Result, StepFailed, Tally
from check_tests import JOBS, PYTHON, SANITIZER_ENVIRONMENT, TOP, PytestTests, UnitTests, known_flaky, of_folder, run_suite

# By cross compiling, with scripts/wheel.
FOREIGN = ("aarch64", "ppc64le")
# Unit tests of the runtime that cannot work in qemu-user, and why.
QEMU_CANNOT = {
    "Join.NoMemoryForTheZerosFailsAGroupOnEveryRank": "qemu's setrlimit leaves RLIMIT_DATA alone",
    "PeerMemoryTest.ReadsTheOtherProcess": "qemu has no process_vm_readv",
    "PeerMemoryTest.FailsWhenTheProcessHasEnded": "the same",
    "DirectReads.AreReplacedByChunksWhereSeccompRefusesThem": "qemu has no seccomp",
    "DirectReads.AreNotTriedIfTheEnvironmentTurnsThemOff": "the same",
}

# By number: README and docs/start/install.md name them.
DEBIANS = {12: "bookworm", 13: "trixie"}

GATE_MARKS = "not slow and not timing"
# Sanitizer builds run what exercises the launcher's own paths. Memory and speed are not the product's there.
SANITIZER_MARKS = "core and not measures and not slow and not timing"

GATE, ALL, SOAK = "gate", "all", "soak"
DEPTHS = (GATE, ALL, SOAK)  # each includes the steps of the ones before
# Nothing that is built or tested depends on these; `layout` looks at them all.
PROSE = ("docs/status.md", "docs/weak-spots.md", "docs/check-all.txt", "docs/soak.txt", "docs/decisions/", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md",
         "SECURITY.md")
SUITES = ("tests/e2e/", "tests/interop/", "tests/python/", "tests/cluster/", "tests/install/", "tests/wheel/", "tests/packages/",
          "tests/frameworks/",
          "tests/fuzz/")


@dataclass(frozen=True)
class Step:
    name: str
    about: str
    run: Callable[[Log], Result]
    depth: str = GATE  # the shallowest run that includes it
    needs: tuple[str, ...] = ()
    always: bool = False  # a build: it finds out by itself what has changed
    ignores: tuple[str, ...] = ()  # files and folders that its result does not depend on
    minutes: float = 10.0  # its time limit, on a machine of slowness 1


@dataclass(frozen=True)
class Options:
    """What the command line asks of the steps."""

    depth: str = GATE
    name: str = ""  # -k: only tests with this in their names, whatever their marks
    stamps: Path | None = None  # where programs that passed are noted; none: all tests run


def steps(options: Options) -> list[Step]:
    return [*static_steps(), *gate_steps(options), *all_steps(options)]


def static_steps() -> Iterator[Step]:
    yield Step("format", "clang-format over the C and C++ sources", run_format)
    yield Step("layout", "folders, includes, lengths of files, tests/flaky.txt, the page of all messages", run_layout)
    yield Step("shellcheck", "shellcheck over the shell scripts", run_shellcheck)
    yield Step("types", "mypy over the Python package; mypy and Pyright over the examples of the pages and examples/", run_types)
    yield Step("man", "mandoc's lint over the manual pages", run_man)


def gate_steps(options: Options) -> Iterator[Step]:
    def suite(folder: str, about: str, marks: str) -> Step:
        path = f"tests/{folder}"
        return Step(folder, about, lambda log: run_pytest(log, options, path, marks), needs=("build",), minutes=30 if everything else 10,
                    ignores=(*PROSE, "bench/", *(each for each in SUITES if each != f"{path}/")))

    everything = options.depth != GATE
    yield build_step("build", "release", "release build in build/, warnings as errors", GATE,
                     "-DHVD_WERROR=ON", "-DHVD_BUILD_TESTS=ON", "-DHVD_BUILD_BENCH=ON")
    yield Step("unit", "unit tests", lambda log: run_unit(log, options, "build"), needs=("build",),
               ignores=(*PROSE, "bench/", *SUITES), minutes=30 if everything else 10)
    yield suite("e2e", "end-to-end tests of the built programs", "" if everything else GATE_MARKS)
    yield suite("interop", "tests with Open MPI, PMIx and torch-style programs", "" if everything else GATE_MARKS)
    yield suite("python", "tests of the Python package, with PyTorch",
                "not tensorflow and not notebook" if everything else f"{GATE_MARKS} and not tensorflow and not notebook")
    yield suite("cluster", "tests on a Slurm cluster of this machine's own",
                "not notebook and not environment" if everything else "gate")
    yield suite("install", "cmake --install, find_package, pkg-config; with --all also pip", "" if everything else GATE_MARKS)


def all_steps(options: Options) -> Iterator[Step]:
    soak = options.depth == SOAK
    yield Step("tensorflow", "tests of the Python package, with TensorFlow",
               lambda log: run_tensorflow(log, options, check_python.TENSORFLOW), ALL, needs=("build",))
    yield Step("python-2", "the Python package with a current PyTorch and TensorFlow 2.15",
               lambda log: run_tensorflow(log, options, check_python.TENSORFLOW_2_15, check_python.TORCH), SOAK, needs=("build",),
               minutes=60)
    yield Step("frameworks", "unmodified programs of PyTorch, JAX, TensorFlow and mpi4py, alone and in SLURM",
               lambda log: run_frameworks(log, options), ALL, needs=("build",), minutes=20)
    yield Step("frameworks-2", "the same with a current PyTorch, FSDP, Lightning, Accelerate, DeepSpeed and transformers",
               lambda log: run_frameworks(log, options, check_python.TORCH), SOAK, needs=("build",), minutes=60)
    if os.geteuid() == 0:  # only root can make the systems on which it is tried
        yield Step("wheel", "the wheel for every Linux, tried on Debian 11 and 12",
                   lambda log: run_pytest(log, options, "tests/wheel", "not slow"), SOAK, needs=("build",), minutes=60)
    yield Step("notebooks", "hvd.run and hvd.slurm in Jupyter, alone and in SLURM", lambda log: run_notebooks(log, options), ALL,
               needs=("build",))
    if os.geteuid() == 0:  # only root can make the systems on which they are tried
        yield Step("packages", "packages for Debian, rpm and clusters, tried on a clean system; a whole release",
                   lambda log: run_packages(log, options), SOAK, needs=("build",), minutes=90)
    if os.geteuid() == 0:  # only root can make the systems
        for number, release in DEBIANS.items():
            yield Step(f"debian-{number}", f"README's commands, with the gate, on a fresh Debian {number}", partial(run_fresh, release), ALL,
                       minutes=120)
    yield Step("site", "the documents as a site with search; dead links are errors", run_site, ALL, minutes=5)
    yield Step("bench", "the benches, a small round each", run_bench, ALL, needs=("build",))
    if os.geteuid() == 0:  # only root can make the hosts between which it measures
        yield Step("speed", "launching, output and allreduces as ratios to their peers, compared with docs/benchmarks.md", run_speed, ALL,
                   needs=("build",), minutes=15)
    yield build_step("fast-build", "fast", "build of each source of hvdrun and libhvd by itself", ALL, targets=("hvdrun", "hvd"))
    for name, about in (("dev", "address and undefined sanitizers"), ("tsan", "thread sanitizer")):
        yield build_step(f"{name}-build", name, f"build with the {about}", ALL)
        yield from sanitizer_steps(options, name, about)
    yield build_step("fuzz-build", "fuzz", "build of the fuzzers with clang", ALL,
                     targets=tuple(source.stem for source in sorted((TOP / "tests/fuzz").glob("fuzz_*.cpp"))))
    seconds = 600 if soak else 5
    yield Step("fuzz", f"the fuzzers' seeds, then {seconds} seconds each", lambda log: run_fuzzers(log, seconds), ALL,
               needs=("fuzz-build",), minutes=180 if soak else 10)
    yield Step("tidy", "clang-tidy over the C and C++ sources", lambda log: check_tidy.run(log, singly=False), ALL, needs=("build",),
               minutes=30)
    yield Step("tidy-singly", "the same, each source by itself", lambda log: check_tidy.run(log, singly=True), SOAK, needs=("build",),
               minutes=60)
    for arch in FOREIGN:
        yield Step(f"{arch}-build", f"cross build of hvdrun, libhvd and its unit tests for {arch}",
                   partial(build_foreign, arch), SOAK, always=True, minutes=90)
        yield Step(f"{arch}-unit", f"hvdrun and the unit tests of libhvd for {arch}, in qemu-user",
                   partial(run_foreign, arch), SOAK, needs=(f"{arch}-build",), minutes=60)
    if os.geteuid() == 0:  # only root can unpack the system on which it is tried
        yield Step("aarch64-wheel", "the wheel for aarch64, tried in qemu-user", lambda log: run_pytest(log, options, "tests/wheel", "slow"),
                   SOAK, needs=("aarch64-build",), minutes=90)


def sanitizer_steps(options: Options, name: str, about: str) -> Iterator[Step]:
    build = f"build-{name}"
    yield Step(f"{name}-unit", f"unit tests, {about}", lambda log: run_unit(log, options, build), ALL,
               needs=(f"{name}-build",), minutes=60 if options.depth == SOAK else 15)
    yield Step(f"{name}-e2e", f"a selection of the end-to-end tests, {about}",
               lambda log: run_pytest(log, options, "tests/e2e", SANITIZER_MARKS, build), ALL, needs=(f"{name}-build",))


def build_step(name: str, preset: str, about: str, depth: str, *options: str, targets: tuple[str, ...] = ("all",)) -> Step:
    return Step(name, about, lambda log: run_build(log, preset, options, targets), depth, always=True, minutes=40)


def passed(count: int = 1) -> Result:
    return Result(Tally(passed=count))


def run_build(log: Log, preset: str, options: tuple[str, ...], targets: tuple[str, ...]) -> Result:
    folder = TOP / ("build" if preset == "release" else f"build-{preset}")
    fresh = ["--fresh"] if made_elsewhere(folder) else []
    if preset == "release":  # the gate's unit tests never leave out the comparison with NVIDIA's header
        options = (*options, f"-DHVD_NVML_HEADERS={check_python.nvml_headers(log)}")
    log.run(["cmake", *fresh, "--preset", preset, *options])
    log.run(["cmake", "--build", folder, "-j", str(JOBS), "--target", *targets])
    return passed()


def build_foreign(arch: str, log: Log) -> Result:
    log.run([TOP / "scripts/wheel", "--arch", arch, "--tests", TOP / f"build-{arch}"])
    return passed()


def run_foreign(arch: str, log: Log) -> Result:
    folder = TOP / f"build-{arch}"
    for option in ("--version", "--help"):
        log.run(["timeout", "300", f"qemu-{arch}-static", "-L", folder / "debian", folder / "tests/bin/hvdrun", option])
    # A soak's counts are for the processor itself: sudden deaths alone would take half an hour here.
    tests = UnitTests(folder / "tests/tests/unit/runtime", gate=True, leave_out=frozenset(QEMU_CANNOT),
                      environment={"HVD_SOAK": "0"})
    return run_suite(log, tests)


def made_elsewhere(folder: Path) -> bool:
    """The folder was configured for a checkout in another place (this one was moved or copied)."""
    cache = folder / "CMakeCache.txt"
    return cache.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={TOP}\n" not in cache.read_text()


def run_unit(log: Log, options: Options, build: str) -> Result:
    """Sanitizer builds run the gate's tests only, unless this is a soak."""
    gate = options.depth == GATE or (build != "build" and options.depth == ALL)
    flaky = known_flaky()
    tests = UnitTests(TOP / build, gate, options.name, flaky if options.depth == GATE and not options.name else frozenset(),
                      options.stamps if build == "build" else None)
    return run_suite(log, tests, flaky)


def run_pytest(log: Log, options: Options, path: str, marks: str, build: str = "build",
               environment: dict[str, str] | None = None) -> Result:
    flaky = of_folder(known_flaky(), path)
    left_out = flaky if options.depth == GATE and not options.name else frozenset()
    pythons = {"HVD_TEST_TORCH": PYTHON} if path == "tests/python" else {}
    return run_suite(log, PytestTests(path, TOP / build, marks, options.name, left_out, {**pythons, **(environment or {})}), flaky)


def run_tensorflow(log: Log, options: Options, tensorflow: check_python.Environment,
                   torch: check_python.Environment | None = None) -> Result:
    """With a torch, all tests of the package run with both; else those of TensorFlow."""
    pythons = {"HVD_TEST_TENSORFLOW": str(check_python.ensure(log, tensorflow))}
    if torch:
        pythons["HVD_TEST_TORCH"] = str(check_python.ensure(log, torch))
    return run_pytest(log, options, "tests/python", "" if torch else "tensorflow", environment=pythons)


def run_fresh(release: str, log: Log) -> Result:
    output = log.folder / "output.txt"
    if log.run([PYTHON, TOP / "tests/fresh_machine.py", release], may_fail=True, output=output) != 0:
        lines = output.read_text(errors="replace").splitlines()
        raise StepFailed("\n".join([line for line in lines if line.startswith("FAILED ")] + lines[-3:]))
    return passed()


def run_frameworks(log: Log, options: Options, torch: check_python.Environment | None = None) -> Result:
    """With Debian's torch, and without what needs a current one; unless there is one."""
    current = str(check_python.ensure(log, torch)) if torch else ""
    pythons = {"HVD_TEST_TORCH": current, "HVD_TEST_JAX": str(check_python.ensure(log, check_python.JAX)),
               "HVD_TEST_TENSORFLOW": str(check_python.ensure(log, check_python.TENSORFLOW))}
    marks = "" if torch else "not torch_loops"
    return sum_of(run_pytest(log, options, path, marks, environment=pythons)
                  for path in ("tests/frameworks", "tests/cluster/test_frameworks_in_slurm.py", "tests/cluster/test_networks.py"))


def run_site(log: Log) -> Result:
    mkdocs = check_python.ensure(log, check_python.SITE).parent / "mkdocs"
    log.run([TOP / "scripts/site", "--mkdocs", mkdocs])
    return passed()


def run_packages(log: Log, options: Options) -> Result:
    pythons = {"HVD_TEST_EASYBUILD": str(check_python.ensure(log, check_python.EASYBUILD))}
    return run_pytest(log, options, "tests/packages", "", environment=pythons)


def run_notebooks(log: Log, options: Options) -> Result:
    pythons = {"HVD_TEST_NOTEBOOK": str(check_python.ensure(log, check_python.NOTEBOOK))}
    return sum_of(run_pytest(log, options, path, "notebook", environment=pythons)
                  for path in ("tests/python", "tests/cluster/test_slurm_python.py"))


def sum_of(results: Iterable[Result]) -> Result:
    total = Result(Tally())
    for result in results:
        total = Result(total.tally + result.tally, total.failures + result.failures, total.flaky + result.flaky)
    return total


def run_types(log: Log) -> Result:
    check_python.check_types(log)
    return passed()


def run_bench(log: Log) -> Result:
    """Shows that each bench still runs; says nothing of speed."""
    benches = ["launch", "relay", "hosts", "fence", "allreduce", "engine", "timeline", "training", "python"]
    if os.geteuid() == 0:
        benches.append("slurm")  # on a cluster, which only root can make
    for name in benches:
        log.run([PYTHON, TOP / "bench" / name, "--quick"])
    return passed()


def run_speed(log: Log) -> Result:
    output = log.folder / "speed.txt"
    if log.run([PYTHON, TOP / "bench/speed"], may_fail=True, output=output) != 0:
        lines = output.read_text(errors="replace").splitlines()
        raise StepFailed("\n".join([line for line in lines if line.startswith("SLOWER ")] or lines[-3:]))
    return passed()


def run_fuzzers(log: Log, seconds: int) -> Result:
    fuzzers = sorted(path for path in (TOP / "build-fuzz/bin").rglob("fuzz_*") if os.access(path, os.X_OK))
    if not fuzzers:
        raise StepFailed("build-fuzz/bin holds no fuzzer")
    with ThreadPoolExecutor(JOBS) as pool:
        failures = [failure for failure in pool.map(lambda fuzzer: run_fuzzer(log, fuzzer, seconds), fuzzers) if failure]
    return Result(Tally(len(fuzzers) - len(failures), len(failures)), failures)


def run_fuzzer(log: Log, fuzzer: Path, seconds: int) -> Failure | None:
    """Runs one fuzzer, from its seeds and what earlier runs found. Returns the crash that it finds, if any."""
    corpus = TOP / ".cache/fuzz" / fuzzer.name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [seeds] if (seeds := TOP / "tests/fuzz/corpus" / fuzzer.name.removeprefix("fuzz_")).is_dir() else []
    output = log.folder / f"{fuzzer.name}.txt"
    code = log.run([fuzzer, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-verbosity=1",
                    f"-artifact_prefix={log.folder}/{fuzzer.name}-", corpus, *seeds],
                   environment=SANITIZER_ENVIRONMENT, may_fail=True, output=output)
    log.say(f"{fuzzer.name}: {'ok' if code == 0 else f'FAILED, see {output}'}")
    if code == 0:
        return None
    lines = output.read_text(errors="replace").splitlines()
    return Failure(fuzzer.name, [line for line in lines if re.search(r"ERROR|SUMMARY|artifact|runtime error|#[0-9] ", line)])


def sources(*suffixes: str) -> list[Path]:
    """The checkout's own files with these endings, build folders left out; relative to its top."""
    hidden = ("build", ".")
    found: list[Path] = []
    for folder in sorted(path for path in TOP.iterdir() if path.is_dir() and not path.name.startswith(hidden)):
        found += (path.relative_to(TOP) for path in sorted(folder.rglob("*"))
                  if path.suffix in suffixes and path.is_file())
    return found


def run_format(log: Log) -> Result:
    findings = log.folder / "findings.txt"
    program = check_python.clang_format(log)
    code = log.run([program, "--dry-run", "-Werror", *sources(".cpp", ".hpp", ".c", ".h")],
                   may_fail=True, output=findings)
    if code != 0:
        files = sorted(set(re.findall(r"^(.+?):\d+:\d+: error", findings.read_text(), re.MULTILINE)))
        raise StepFailed(f"{program} -i {shlex.join(files)}" if files else f"see {findings}")
    return passed()


def run_layout(log: Log) -> Result:
    log.run([TOP / "scripts/code_layout", "--check"])
    log.run([TOP / "scripts/messages", "--check"])
    return passed()


def run_shellcheck(log: Log) -> Result:
    scripts = [path.relative_to(TOP) for path in sorted((TOP / "scripts").iterdir())
               if path.is_file() and not path.suffix and path.read_text().startswith("#!/bin/bash\n")]
    log.run(["shellcheck", "--external-sources", "quickstart", "check", ".ci/run", "tests/gpu/pack", *scripts, *sources(".sh", ".bash")])
    return passed()


def run_man(log: Log) -> Result:
    pages = sources(".1", ".3", ".5")
    if not pages:
        raise StepFailed("there is no manual page")
    log.run(["mandoc", "-T", "lint", "-W", "warning", *pages])
    log.run([TOP / "scripts/manuals", "--check"])
    return passed()


def forget_logs(name: str) -> Path:
    """An empty folder for one step's logs."""
    folder = TOP / "build/check-logs" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
