"""The steps of ./check for the Python package, and the virtual environments that they make for what Debian has not."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import page_examples
from check_run import Log, StepFailed, say

TOP = Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
# Outside the checkout, so that all checkouts of a user share what was downloaded.
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hvdrun/python"


@dataclass(frozen=True)
class Environment:
    """A virtual environment of /usr/bin/python3 in FOLDER, kept for as long as it asks for the same."""

    name: str
    requirements: tuple[str, ...]
    download: str  # how much it is, for who waits for it
    sources: tuple[str, ...] = ()  # packages that the index has as sources only; they are installed last

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"


# The versions are pinned so that a test that fails has our change for its cause.
TENSORFLOW = Environment("tensorflow", ("tensorflow-cpu==2.21.0", "tf-keras==2.21.0", "pillow==13.0.0"), "about 350 MB")
TENSORFLOW_2_15 = Environment("tensorflow-2.15", ("tensorflow-cpu==2.15.1", "pillow==13.0.0"), "about 300 MB")
JAX = Environment("jax", ("jax[cpu]==0.10.2",), "about 150 MB")
TORCH = Environment("torch", ("torch==2.15.0", "numpy", "pillow==13.0.0", "lightning==2.6.6", "accelerate==1.15.0",
                              "transformers==5.24.0", "setuptools", "wheel"),
                    "about 3 GB, as the index has torch for CUDA only", sources=("deepspeed==0.19.8",))
NOTEBOOK = Environment("notebook", ("nbclient==0.11.0", "ipykernel==7.4.0", "cloudpickle==3.1.3", "numpy"), "about 40 MB")
EASYBUILD = Environment("easybuild", ("setuptools==80.9.0", "wheel==0.45.1", "pycodestyle==2.14.0"), "about 3 MB",
                        sources=("easybuild-framework==5.4.1", "easybuild-easyblocks==5.4.1"))
SITE = Environment("site", ("mkdocs-material==9.8.2", "mkdocs==1.6.1", "pymdown-extensions==13.1.2"), "about 20 MB")

# Pyright with its interpreter, Node.js, in one wheel.
PYRIGHT = Environment("pyright", ("basedpyright==1.40.2",), "about 70 MB")

# NVIDIA's header of NVML, for the gate's unit tests.
NVML = Environment("nvml", ("nvidia-nvml-dev==13.5.37",), "less than 1 MB")

# The sources have the form of this version, Debian 12's: another one would change many lines.
CLANG_FORMAT = Environment("clang-format", ("clang-format==14.0.6",), "about 2 MB")


# DeepSpeed would compile its collectives on CPUs when it is first used, which takes minutes.
BUILD_VARIABLES = {"DS_ACCELERATOR": "cpu", "DS_BUILD_SHM_COMM": "1"}


def ensure(log: Log, environment: Environment) -> Path:
    """The environment's Python. Downloads it the first time, and says how much that was. Checks of other checkouts wait."""
    stamp = environment.folder / "requirements.txt"
    wanted = "\n".join([*environment.requirements, *environment.sources]) + "\n"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f"{environment.name}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            download(log, environment)
            stamp.write_text(wanted)
    return environment.python


def download(log: Log, environment: Environment) -> None:
    say(f"   {environment.name}: downloading {environment.download} into {environment.folder}, once")
    shutil.rmtree(environment.folder, ignore_errors=True)
    wheels = environment.folder / "wheels"
    log.run([PYTHON, "-m", "venv", environment.folder])
    pip = [environment.python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    sources = [f"--no-binary={source.partition('==')[0]}" for source in environment.sources]
    log.run([*pip, "download", "--no-cache-dir", "--only-binary=:all:", *sources, "--dest", wheels,
             *environment.requirements, *environment.sources])
    size = sum(file.stat().st_size for file in wheels.iterdir())
    install = [*pip, "install", "--no-index", "--find-links", wheels]
    log.run([*install, *environment.requirements])
    if environment.sources:
        log.run([*install, "--no-cache-dir", "--no-build-isolation", *environment.sources], environment=BUILD_VARIABLES)
    shutil.rmtree(wheels)
    say(f"   {environment.name}: {size / 1e6:.0f} MB downloaded")


def nvml_headers(log: Log) -> Path:
    """The folder of NVIDIA's nvml.h."""
    ensure(log, NVML)
    found = sorted(NVML.folder.rglob("nvml.h"))
    if not found:
        raise StepFailed(f"{NVML.requirements[0]} has no nvml.h")
    return found[0].parent


def clang_format(log: Log) -> Path:
    """clang-format of the version that gives the sources their form: Debian's own, or a downloaded one."""
    own = Path("/usr/bin/clang-format")
    wanted = CLANG_FORMAT.requirements[0].partition("==")[2]
    if own.exists() and f"version {wanted}" in subprocess.run([own, "--version"], capture_output=True, text=True).stdout:
        return own
    return ensure(log, CLANG_FORMAT).parent / "clang-format"


def check_types(log: Log) -> None:
    """mypy over the package, and mypy and Pyright over the examples; the frameworks' own types are not looked at."""
    findings = log.folder / "findings.txt"
    if log.run([PYTHON, "-m", "mypy", "--config-file", TOP / "python/mypy.ini", "--cache-dir", TOP / ".cache/mypy",
                TOP / "python/hvd"], may_fail=True, output=findings) != 0:
        raise StepFailed(findings.read_text()[-4000:])
    check_example_types(log)


def check_example_types(log: Log) -> None:
    """Type checkers over the Python examples of the pages and examples/, with the package as a user has it."""
    folder = log.folder / "examples"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = [TOP / "README.md", *(page for page in sorted((TOP / "docs").rglob("*.md")) if page.parent.name != "decisions")]
    for name, text in page_examples.modules(pages, TOP):
        (folder / f"{name}.py").write_text(text)
    settings = {"typeCheckingMode": "standard", "pythonVersion": "3.9", "include": [str(folder), str(TOP / "examples")],
                "extraPaths": [str(TOP / "python")], "reportMissingImports": False, "reportMissingModuleSource": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    files = [*sorted(folder.glob("*.py")), *sorted((TOP / "examples").rglob("*.py"))]
    mypy = [PYTHON, "-m", "mypy", "--config-file", TOP / "python/mypy-examples.ini", "--cache-dir", TOP / ".cache/mypy-examples"]
    # Of its own interpreter, which has no frameworks.
    python = ensure(log, PYRIGHT)
    pyright = [python.parent / "basedpyright", "--pythonpath", python, "--project", folder / "pyrightconfig.json"]
    for name, command in (("mypy", [*mypy, *files]), ("pyright", pyright)):
        findings = log.folder / f"findings-{name}.txt"
        if log.run(command, may_fail=True, output=findings, environment={"MYPYPATH": str(TOP / "python")}) != 0:
            raise StepFailed(findings.read_text()[-4000:])
