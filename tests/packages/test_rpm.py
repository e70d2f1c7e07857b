"""The packages of `cpack -G RPM` have the right files and dependencies, and they work after rpm has installed them.

Debian has the program rpm. The test does not run on a distribution that uses rpm itself.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from debian_root import Root, make_root, run
from harness import BUILD, TOP
from installation import RANKS, TWO_RANKS

pytestmark = pytest.mark.xdist_group("packages")

WORK = TOP / "build-rpm"
PACKAGES = ("hvdrun", "libhvd", "libhvd-devel", "python3-hvd")
# Reports of rpmlint that are accepted, by the reason.
ALLOWED = {
    "the publisher of a package signs it and writes its changelog": ("no-signature", "no-changelogname-tag", "no-url-tag"),
    "only SUSE names packages after the soname": (
        "shlib-policy-name-error", "no-major-in-name", "non-versioned-file-in-library-package", "outside-libdir-files",
        "devel-package-with-non-devel-group"),
    "rpm's own triggers do it": ("library-without-ldconfig-post", "manpage-not-compressed"),
    "Debian's CMake and rpm differ from those of rpm distributions": ("shared-library-not-executable", "no-pkg-config-provides"),
    "the package has no program, but paths that depend on the processor": ("no-binary",),
    "a plugin, which is opened by its path": ("no-soname",),
    "every dynamic loader since 2006 reads the newer hash table": ("missing-hash-section",),
    "a link into the package libhvd": ("dangling-relative-symlink",),
    "bash loads the file that is named as the command": ("files-duplicate",),
    "the manual is hvdrun's": ("no-documentation", "no-manual-page-for-binary"),
}


@pytest.fixture(scope="module")
def packages() -> dict[str, Path]:
    """Builds the packages. Returns their files by name."""
    run(["rm", "-rf", WORK / "made"])
    run(["nice", "-n", "10", "cpack", "-G", "RPM", "--config", BUILD / "CPackConfig.cmake", "-B", WORK / "made"], cwd=BUILD)
    return {run(["rpm", "-qp", "--queryformat", "%{NAME}", file]).stdout: file for file in (WORK / "made").glob("*.rpm")}


def listed(package: Path, *query: str) -> list[str]:
    return run(["rpm", "-qp", *query, package]).stdout.splitlines()


def test_cpack_makes_the_four_rpm_packages(packages: dict[str, Path]) -> None:
    assert sorted(packages) == list(PACKAGES)
    [version] = re.findall(r"project\(hvdrun VERSION ([0-9.]+)", (TOP / "CMakeLists.txt").read_text())
    machine = run(["uname", "-m"]).stdout.strip()
    assert {file.name for file in packages.values()} == {f"{name}-{version}-1.{machine}.rpm" for name in PACKAGES}


def test_each_installed_file_is_in_one_package(packages: dict[str, Path], tmp_path: Path) -> None:
    run(["cmake", "--install", BUILD, "--prefix", tmp_path / "usr"])
    installed = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir() or path.is_symlink()}
    examples = {name for name in installed if "digits" in name or (name.startswith("usr/libexec/") and "hvdrun" not in name)}
    packed: list[str] = []
    for name, package in packages.items():
        files = [line.partition(" ")[2] for line in listed(package, "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]") if line[0] != "d"]
        assert f"/usr/share/licenses/{name}/LICENSE" in files
        packed += (file[1:] for file in files if "/licenses/" not in file)
    assert sorted(packed) == sorted(installed - examples) and examples


def test_rpm_packages_own_only_folders_of_hvdrun_and_libhvd(packages: dict[str, Path]) -> None:
    folders = {line.partition(" ")[2] for package in packages.values()
               for line in listed(package, "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]") if line[0] == "d"}
    assert folders and not [folder for folder in folders if "hvd" not in folder], folders


def test_rpm_packages_depend_on_libc_and_each_other_but_not_on_mpi_or_pmix(packages: dict[str, Path]) -> None:
    needs = {name: set(listed(package, "--requires")) for name, package in packages.items()}
    assert [need for need in needs["libhvd"] if need.startswith("libc.so.6(GLIBC_")]
    assert not [need for name in PACKAGES for need in needs[name] if "libmpi" in need or "pmix" in need or "libssh" in need]
    [version] = listed(packages["libhvd"], "--queryformat", "%{VERSION}\n")
    for name in ("libhvd-devel", "python3-hvd"):
        assert f"libhvd = {version}" in needs[name]
    assert "python3 >= 3.9" in needs["python3-hvd"]
    assert not [line for line in listed(packages["libhvd"], "--provides") if "hvd_mpi" in line]


def test_rpmlint_finds_no_error_and_no_warning(packages: dict[str, Path], tmp_path: Path) -> None:
    allowed = [each for words in ALLOWED.values() for each in words]
    (tmp_path / "settings.toml").write_text(f'Filters = {allowed}\nValidLicenses = ["Apache-2.0"]\n')
    done = run(["rpmlint", "--config", tmp_path / "settings.toml", *packages.values()], may_fail=True)
    assert done.returncode == 0 and " 0 errors, 0 warnings" in done.stdout, done.stdout + done.stderr


@pytest.fixture(scope="module")
def root(packages: dict[str, Path]) -> Root:
    """Makes a Debian 12 with Python, and installs the packages there with the rpm of this machine."""
    made = make_root(WORK / "root", "bookworm", "python3")
    # --nodeps: Debian's packages fulfil the dependencies, but rpm does not know them.
    run(["rpm", "--root", made.place, "--nodeps", "--install", *packages.values()])
    return made


def test_ranks_run_with_the_rpm_packages(root: Root) -> None:
    variables = ("env", "PYTHONPATH=/usr/share/hvd/python")
    assert root.lines(*variables, "hvdrun", "-np", 2, "--label", "none", "python3", "-c", RANKS) == TWO_RANKS
    program = "import horovod, hvd; print(horovod.__file__, hvd.__file__)"
    assert root.lines("hvdrun", "--horovod", "-np", 1, "--label", "none", "python3", "-c", program) == [
        "/usr/share/hvdrun/horovod/horovod/__init__.py /usr/share/hvd/python/hvd/__init__.py"]


def test_rpm_erase_removes_every_file(root: Root) -> None:
    run(["rpm", "--root", root.place, "--nodeps", "--erase", *PACKAGES])
    left = [path for path in (root.place / "usr").rglob("*hvd*")]
    assert not left, left
