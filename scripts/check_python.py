"""The steps of ./check for the Python package, and the virtual environments that they make for what Debian has not."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from check_run import Log, StepFailed, say

TOP = Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
FOLDER = TOP / ".cache/python"


@dataclass(frozen=True)
class Environment:
    """A virtual environment of /usr/bin/python3 in .cache/python, kept for as long as it asks for the same."""

    name: str
    requirements: tuple[str, ...]
    download: str  # how much it is, for who waits for it

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"


# The versions are pinned so that a test that fails has our change for its cause.
TENSORFLOW = Environment("tensorflow", ("tensorflow-cpu==2.21.0", "pillow==13.0.0"), "about 350 MB")
TENSORFLOW_2_15 = Environment("tensorflow-2.15", ("tensorflow-cpu==2.15.1", "pillow==13.0.0"), "about 300 MB")
JAX = Environment("jax", ("jax[cpu]==0.10.2",), "about 150 MB")
TORCH_LOOPS = Environment("torch-loops", ("accelerate==0.34.2", "lightning==2.2.5", "torch==2.15.0", "numpy"),
                          "about 3 GB, as the index has torch for CUDA only")
TORCH = Environment("torch", ("torch==2.15.0", "numpy", "pillow==13.0.0"),
                    "about 3 GB, as the index has torch for CUDA only")


def ensure(log: Log, environment: Environment) -> Path:
    """The environment's Python. Downloads it the first time, and says how much that was."""
    stamp = environment.folder / "requirements.txt"
    wanted = "\n".join(environment.requirements) + "\n"
    if stamp.exists() and stamp.read_text() == wanted:
        return environment.python
    say(f"   {environment.name}: downloading {environment.download} into {environment.folder.relative_to(TOP)}, once")
    shutil.rmtree(environment.folder, ignore_errors=True)
    wheels = environment.folder / "wheels"
    log.run([PYTHON, "-m", "venv", environment.folder])
    pip = [environment.python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    log.run([*pip, "download", "--no-cache-dir", "--only-binary=:all:", "--dest", wheels, *environment.requirements])
    size = sum(file.stat().st_size for file in wheels.iterdir())
    log.run([*pip, "install", "--no-index", "--find-links", wheels, *environment.requirements])
    shutil.rmtree(wheels)
    stamp.write_text(wanted)
    say(f"   {environment.name}: {size / 1e6:.0f} MB downloaded")
    return environment.python


def check_types(log: Log) -> None:
    """mypy over the package; the frameworks have types of their own, which are not looked at."""
    findings = log.folder / "findings.txt"
    if log.run([PYTHON, "-m", "mypy", "--config-file", TOP / "python/mypy.ini", "--cache-dir", TOP / ".cache/mypy",
                TOP / "python/hvd"], may_fail=True, output=findings) != 0:
        raise StepFailed(findings.read_text()[-4000:])
