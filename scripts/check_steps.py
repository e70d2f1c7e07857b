"""The steps of ./check: what each runs and how its results are counted."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import check_python
import check_tidy
from check_run import Log, Tally, StepFailed

TOP = Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
JOBS = os.cpu_count() or 2

AARCH64_ROOT = TOP / "build-aarch64/root"
# Unit tests of the runtime that cannot work in qemu-user, and why.
QEMU_CANNOT = {
    "Join.NoMemoryForTheZerosOfAGroupIsAnErrorOnAll": "qemu's setrlimit leaves RLIMIT_DATA alone",
}

FAULT_LINES = 40  # of what one failed test said

# Tests that measure memory or speed say nothing of a sanitizer's build; under the thread sanitizer
# only those run that exercise the launcher's own paths.
SANITIZER_MARKS = "not measures"
THREAD_MARKS = "core and not measures"

SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:disable_coredump=0",
    "LSAN_OPTIONS": f"suppressions={TOP}/scripts/lsan.supp:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:disable_coredump=0:atexit_sleep_ms=0",
}


@dataclass(frozen=True)
class Step:
    name: str
    about: str
    run: Callable[[Log], Tally]
    needs: tuple[str, ...] = ()
    # Steps of one lane run one after the other, the lanes side by side: builds keep the cores busy
    # while the tests of the build before mostly wait.
    lane: str = "tests"
    # Never left out because nothing changed: it is quick then anyway, and others stand on it.
    always: bool = False
    short: bool = False  # ./check runs it without --all, too


def steps(soak: bool) -> list[Step]:
    """All steps; those of one lane in the order in which they run."""
    return [*build_lane(soak), *test_lane(soak)]


def build_lane(soak: bool) -> Iterator[Step]:
    def build(name: str, preset: str, about: str, *options: str, targets: tuple[str, ...] = ("all",)) -> Step:
        return Step(name, about, lambda log: run_build(log, preset, options, targets), lane="builds", always=True,
                    short=preset == "release")

    yield build("build", "release", "release build in build/, warnings as errors",
                "-DHVD_WERROR=ON", "-DHVD_BUILD_TESTS=ON", "-DHVD_BUILD_BENCH=ON")
    yield build("dev-build", "dev", "build with the address and undefined sanitizers")
    yield build("tsan-build", "tsan", "build with the thread sanitizer")
    yield build("fuzz-build", "fuzz", "build of the fuzzers with clang",
                targets=tuple(source.stem for source in sorted((TOP / "tests/fuzz").glob("fuzz_*.cpp"))))
    if soak:
        yield Step("aarch64-build", "cross build of hvdrun, libhvd and its unit tests for aarch64", build_aarch64,
                   lane="builds", always=True)
    yield Step("tidy", "clang-tidy over the C and C++ sources", check_tidy.run, needs=("build",), lane="builds")


def test_lane(soak: bool) -> Iterator[Step]:
    yield Step("format", "clang-format over the C and C++ sources", run_format, short=True)
    yield Step("layout", "folders, includes and lengths of files against ARCHITECTURE.md", run_layout, short=True)
    yield Step("shellcheck", "shellcheck over the shell scripts", run_shellcheck, short=True)
    yield Step("types", "mypy over the Python package", run_types, short=True)
    yield Step("man", "mandoc's lint over the manual pages", run_man, short=True)
    yield Step("unit", "unit tests", lambda log: run_ctest(log, "build", soak), needs=("build",), short=True)
    yield Step("e2e", "end-to-end tests of the built programs",
               lambda log: run_pytest(log, "build", ["tests/e2e"]), needs=("build",), short=True)
    yield Step("interop", "tests with Open MPI, PMIx and torch-style programs",
               lambda log: run_pytest(log, "build", ["tests/interop"]), needs=("build",), short=True)
    yield Step("python", "tests of the Python package, with PyTorch", lambda log: run_python(log, "not tensorflow"),
               needs=("build",), short=True)
    yield Step("tensorflow", "tests of the Python package, with TensorFlow",
               lambda log: run_python(log, "tensorflow", check_python.TENSORFLOW), needs=("build",))
    if soak:
        yield Step("python-2", "both with a current PyTorch and TensorFlow 2.15",
                   lambda log: run_python(log, "", check_python.TENSORFLOW_2_15, check_python.TORCH), needs=("build",))
    yield Step("frameworks", "unmodified programs of PyTorch, JAX, TensorFlow and mpi4py", run_frameworks, needs=("build",))
    if soak:
        yield Step("frameworks-2", "the same with a current PyTorch, FSDP, Lightning and Accelerate",
                   lambda log: run_frameworks(log, check_python.TORCH_LOOPS), needs=("build",))
    # Each worker brings up a cluster of its own, so there are fewer of them.
    yield Step("cluster", "tests on a Slurm cluster of this machine's own",
               lambda log: run_pytest(log, "build", ["tests/cluster"], workers=JOBS), needs=("build",))
    yield Step("install", "cmake --install, find_package, pkg-config, pip",
               lambda log: run_pytest(log, "build", ["tests/install"]), needs=("build",))
    yield Step("bench", "the benches, a small round each", run_bench, needs=("build",))
    yield Step("dev-unit", "unit tests, address and undefined sanitizers",
               lambda log: run_ctest(log, "build-dev", soak), needs=("dev-build",))
    yield Step("dev-e2e", "end-to-end tests, address and undefined sanitizers",
               lambda log: run_pytest(log, "build-dev", ["tests/e2e"], SANITIZER_MARKS), needs=("dev-build",))
    yield Step("tsan-unit", "unit tests, thread sanitizer",
               lambda log: run_ctest(log, "build-tsan", soak), needs=("tsan-build",))
    yield Step("tsan-e2e", "a selection of the end-to-end tests, thread sanitizer",
               lambda log: run_pytest(log, "build-tsan", ["tests/e2e"], THREAD_MARKS), needs=("tsan-build",))
    if soak:
        yield Step("aarch64-unit", "hvdrun and the unit tests of libhvd for aarch64, in qemu-user", run_aarch64,
                   needs=("aarch64-build",))
    yield Step("fuzz", f"each fuzzer for {'10 minutes' if soak else '10 seconds'}",
               lambda log: run_fuzzers(log, 600 if soak else 10), needs=("fuzz-build",))


def run_build(log: Log, preset: str, options: tuple[str, ...], targets: tuple[str, ...]) -> Tally:
    folder = TOP / ("build" if preset == "release" else f"build-{preset}")
    fresh = ["--fresh"] if made_elsewhere(folder) else []
    log.run(["cmake", *fresh, "--preset", preset, *options])
    # The tests of another build run meanwhile and have time limits: let them go first.
    log.run(["nice", "-n", "10", "cmake", "--build", folder, "-j", str(JOBS), "--target", *targets])
    return Tally(passed=1)


def build_aarch64(log: Log) -> Tally:
    log.run([TOP / "scripts/aarch64_root", AARCH64_ROOT])
    return run_build(log, "aarch64", (), ("hvdrun", "hvd", "digits", "tests/unit/runtime/all"))


def run_aarch64(log: Log) -> Tally:
    emulator = ["qemu-aarch64-static", "-L", AARCH64_ROOT]
    programs = TOP / "build-aarch64/bin"
    hvdrun = ["timeout", "300", *emulator, programs / "hvdrun"]
    runs: list[list[object]] = [["--version"], ["--help"],
                                ["-np", "2", *emulator, programs / "examples/digits", "--epochs", "1"]]
    for arguments in runs:
        log.run([*hvdrun, *arguments])
    cannot = "|".join(re.escape(name) for name in QEMU_CANNOT)
    # A soak's counts are for the processor itself: sudden deaths alone would take half an hour here.
    tests = run_ctest(log, "build-aarch64/tests/unit/runtime", False, "--exclude-regex", f"^({cannot})$",
                      environment={"HVD_SOAK": "0"})
    return tests + Tally(passed=len(runs), skipped=len(QEMU_CANNOT))


def made_elsewhere(folder: Path) -> bool:
    """The folder was configured for a checkout in another place (this one was moved or copied)."""
    cache = folder / "CMakeCache.txt"
    return cache.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={TOP}\n" not in cache.read_text()


def run_ctest(log: Log, build: str, soak: bool, *options: str, environment: dict[str, str] | None = None) -> Tally:
    seconds = 1800 if soak else 300  # a test
    results = log.folder / "results.xml"
    log.run(["ctest", "--test-dir", TOP / build, "--output-on-failure", "--no-tests=error",
             "--parallel", str(JOBS + 1), "--timeout", str(seconds), "--output-junit", results, *options],
            environment={**SANITIZER_ENVIRONMENT, **(environment or {})}, may_fail=True)
    return tally_of(log, results)


def run_pytest(log: Log, build: str, paths: list[str], marks: str = "", workers: int = 2 * JOBS,
               environment: dict[str, str] | None = None) -> Tally:
    results = log.folder / "results.xml"
    results.unlink(missing_ok=True)
    log.run([PYTHON, "-m", "pytest", "-n", str(workers), "--dist", "loadgroup", "-q", "-ra", "-p", "no:cacheprovider",
             "-m", marks, "--junitxml", results, *paths],
            environment={**SANITIZER_ENVIRONMENT, "HVD_BUILD": str(TOP / build), **(environment or {})}, may_fail=True)
    return tally_of(log, results)


def run_python(log: Log, marks: str, tensorflow: check_python.Environment | None = None,
               torch: check_python.Environment | None = None) -> Tally:
    """With Debian's torch, unless there is another one."""
    pythons = {"HVD_TEST_TORCH": str(check_python.ensure(log, torch)) if torch else PYTHON}
    if tensorflow:
        pythons["HVD_TEST_TENSORFLOW"] = str(check_python.ensure(log, tensorflow))
    return run_pytest(log, "build", ["tests/python"], marks, environment=pythons, workers=JOBS)


def run_frameworks(log: Log, torch: check_python.Environment | None = None) -> Tally:
    """With Debian's torch, and without what needs a current one; unless there is one."""
    current = str(check_python.ensure(log, torch)) if torch else ""
    pythons = {"HVD_TEST_TORCH": current or PYTHON, "HVD_TEST_TORCH_LOOPS": current,
               "HVD_TEST_JAX": str(check_python.ensure(log, check_python.JAX)),
               "HVD_TEST_TENSORFLOW": str(check_python.ensure(log, check_python.TENSORFLOW))}
    marks = "" if torch else "not torch_loops"
    return run_pytest(log, "build", ["tests/frameworks"], marks, environment=pythons, workers=JOBS)


def run_types(log: Log) -> Tally:
    check_python.check_types(log)
    return Tally(passed=1)


def tally_of(log: Log, results: Path) -> Tally:
    """Counts a JUnit file; what failed goes to the end of the log, where it is looked for.
    Error: there is no such file, so the runner itself failed."""
    if not results.exists():
        raise StepFailed("the test runner left no results")
    tally = Tally()
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        faults = case.findall("failure") + case.findall("error")
        if faults:
            tally += Tally(failed=1)
            said = "".join(fault.text or "" for fault in faults) or case.findtext("system-out", "")
            log.say(f"\n---- {case.get('classname')}: {case.get('name')}\n" + "\n".join(said.splitlines()[-FAULT_LINES:]))
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            tally += Tally(skipped=1)
        else:
            tally += Tally(passed=1)
        tally += Tally(injected=sum(int(one.get("value", "0")) for one in case.iter("property") if one.get("name") == "injected"))
    if tally.total == 0:
        raise StepFailed("the test runner ran no test")
    return tally


def run_bench(log: Log) -> Tally:
    benches = ["launch", "relay", "hosts", "fence", "allreduce", "engine", "timeline", "training", "python"]
    if os.geteuid() == 0:
        benches.append("slurm")  # on a cluster, which only root can make
    for name in benches:
        log.run([PYTHON, TOP / "bench" / name, "--quick"])
    return Tally(passed=len(benches))


def run_fuzzers(log: Log, seconds: int) -> Tally:
    fuzzers = sorted(path for path in (TOP / "build-fuzz/bin").rglob("fuzz_*") if os.access(path, os.X_OK))
    if not fuzzers:
        raise StepFailed("build-fuzz/bin holds no fuzzer")
    with ThreadPoolExecutor(JOBS) as pool:
        outcomes = list(pool.map(lambda fuzzer: run_fuzzer(log, fuzzer, seconds), fuzzers))
    return Tally(passed=sum(outcomes), failed=len(outcomes) - sum(outcomes))


def run_fuzzer(log: Log, fuzzer: Path, seconds: int) -> bool:
    """Runs one fuzzer, from its seeds and what earlier runs found; true when it found no crash."""
    corpus = TOP / ".cache/fuzz" / fuzzer.name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [seeds] if (seeds := TOP / "tests/fuzz/corpus" / fuzzer.name.removeprefix("fuzz_")).is_dir() else []
    code = log.run([fuzzer, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-verbosity=1",
                    f"-artifact_prefix={log.folder}/{fuzzer.name}-", corpus, *seeds],
                   environment=SANITIZER_ENVIRONMENT, may_fail=True, output=log.folder / f"{fuzzer.name}.txt")
    log.say(f"{fuzzer.name}: {'ok' if code == 0 else f'FAILED, see {log.folder}/{fuzzer.name}.txt'}")
    return code == 0


def sources(*suffixes: str) -> list[Path]:
    """The checkout's own files with these endings, build folders left out; relative to its top."""
    hidden = ("build", ".")
    found: list[Path] = []
    for folder in sorted(path for path in TOP.iterdir() if path.is_dir() and not path.name.startswith(hidden)):
        found += (path.relative_to(TOP) for path in sorted(folder.rglob("*"))
                  if path.suffix in suffixes and path.is_file())
    return found


def run_format(log: Log) -> Tally:
    findings = log.folder / "findings.txt"
    code = log.run(["clang-format", "--dry-run", "-Werror", *sources(".cpp", ".hpp", ".c", ".h")],
                   may_fail=True, output=findings)
    if code != 0:
        files = sorted(set(re.findall(r"^(.+?):\d+:\d+: error", findings.read_text(), re.MULTILINE)))
        raise StepFailed(f"clang-format -i {shlex.join(files)}" if files else f"see {findings}")
    return Tally(passed=1)


def run_layout(log: Log) -> Tally:
    log.run([TOP / "scripts/code_layout", "--check"])
    return Tally(passed=1)


def run_shellcheck(log: Log) -> Tally:
    log.run(["shellcheck", "--external-sources", "quickstart", "check", ".ci/run", *sources(".sh", ".bash")])
    return Tally(passed=1)


def run_man(log: Log) -> Tally:
    pages = sources(".1", ".3", ".5")
    if not pages:
        raise StepFailed("there is no manual page")
    log.run(["mandoc", "-T", "lint", "-W", "warning", *pages])
    return Tally(passed=1)


def forget_logs(name: str) -> Path:
    """An empty folder for one step's logs."""
    folder = TOP / "build/check-logs" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
