"""What to type to get a part that `python -m hvd` does not find. Reads files only; starts nothing."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Optional

# Packages by the program that installs them: Debian's, Fedora's and RHEL's, openSUSE's.
_PACKAGES = {
    "PMIx": {"apt-get": "libpmix2", "dnf": "pmix", "zypper": "libpmix2"},
    "libssh": {"apt-get": "libssh-4", "dnf": "libssh", "zypper": "libssh4"},
    "ssh": {"apt-get": "openssh-client", "dnf": "openssh-clients", "zypper": "openssh-clients"},
    "OpenSSL": {"apt-get": "libssl3", "dnf": "openssl-libs", "zypper": "libopenssl3"},
    "Open MPI": {"apt-get": "libopenmpi3", "dnf": "openmpi", "zypper": "openmpi4"},
    "cloudpickle": {"apt-get": "python3-cloudpickle"},
    "numpy": {"apt-get": "python3-numpy"},
    "torch": {"apt-get": "python3-torch"},
}
_NVIDIA = "0x10de"  # of PCI's list of vendors


def system_package(part: str) -> Optional[str]:
    """Returns the command that installs a part from the system's packages; None if no such command is known."""
    names = _PACKAGES.get(part, {})
    for program, package in names.items():
        if shutil.which(program):
            return f"{'' if os.geteuid() == 0 else 'sudo '}{program} install {package}"
    return None


def python_package(name: str) -> str:
    """Returns the command that installs a distribution for this Python, which may be the system's (PEP 668)."""
    marker = Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED"
    if sys.prefix != sys.base_prefix or not marker.exists():
        return f"{sys.executable} -m pip install {name}"
    return system_package(name) or f"{sys.executable} -m venv ~/hvd && ~/hvd/bin/pip install {name}"


def hvdrun() -> str:
    """Returns the command that builds hvdrun, in a checkout, or installs it with the package."""
    if (Path(__file__).resolve().parents[2] / "quickstart").exists():
        return "./quickstart"
    return python_package("--force-reinstall hvd")


def put_on_path(folder: str) -> str:
    return f"export PATH={folder}:$PATH"


def find_nvidia_gpu(devices: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Returns whether this machine has a display controller or accelerator of NVIDIA's."""
    def read(file: Path) -> str:
        try:
            return file.read_text().strip()
        except OSError:
            return ""

    if not devices.is_dir():
        return False
    return any(read(device / "vendor") == _NVIDIA and read(device / "class")[:4] in ("0x03", "0x12")
               for device in devices.iterdir())


def cuda_driver() -> str:
    if shutil.which("apt-get"):
        return f"{'' if os.geteuid() == 0 else 'sudo '}apt-get install nvidia-driver"
    return "https://www.nvidia.com/drivers"
