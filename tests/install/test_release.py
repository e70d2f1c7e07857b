"""scripts/release makes the files of a release, or prints an error and makes none.

It runs in a small repository that has the files that it reads. tests/packages/test_whole_release.py tests it with the wheel and
the packages.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import TOP

VERSION = "1.2.3"
FILES = {
    ".gitignore": "/build*/\n",
    "CMakeLists.txt": f"cmake_minimum_required(VERSION 3.25)\nproject(hvdrun VERSION {VERSION} LANGUAGES C CXX)\n",
    "python/hvd-horovod/pyproject.toml": f'[project]\nname = "hvd-horovod"\nversion = "{VERSION}"\n',
    f"packaging/easybuild/hvdrun-{VERSION}.eb": f"name = 'hvdrun'\nversion = '{VERSION}'\n",
    "packaging/spack/spack_repo/hvdrun/packages/hvdrun/package.py": f'class Hvdrun:\n    version("{VERSION}")\n',
    "debian/changelog": f"hvdrun ({VERSION}) bookworm; urgency=medium\n",
    "CHANGELOG.md": "# Changelog\n\n## 1.2.30, 2026-12-02\n\n- Ten times as new.\n\n"
                    f"## {VERSION}, 2026-12-01\n\n### Added\n\n- A wheel.\n\n## 1.2.2, 2026-11-01\n\n- Old.\n",
}
CHANGES = f"## {VERSION}, 2026-12-01\n\n### Added\n\n- A wheel.\n\n"
ARCHIVE = f"hvdrun-{VERSION}.tar.gz"


@dataclass
class Checkout:
    """A repository with one commit that can be released."""

    place: Path

    def git(self, *words: str) -> str:
        settings = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false", "-c", "core.hooksPath=/nonexistent"]
        done = subprocess.run(["git", "-C", self.place, *settings, *words], capture_output=True, text=True)
        assert done.returncode == 0, f"git {words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def replace(self, name: str, old: str, new: str) -> None:
        """Changes a file and commits the change."""
        text = (self.place / name).read_text()
        assert old in text
        (self.place / name).write_text(text.replace(old, new))
        self.git("commit", "--quiet", "--all", "--message", "change")

    def release(self, *words: str, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.place / "scripts/release", *words], capture_output=True, text=True, umask=umask, timeout=60)

    def released(self, umask: int = 0o022) -> Path:
        done = self.release(VERSION, "--skip-wheel", "--skip-debs", umask=umask)
        assert done.returncode == 0, done.stdout + done.stderr
        return self.place / "build-release" / VERSION


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "with space")
    for name, text in FILES.items():
        (made.place / name).parent.mkdir(parents=True, exist_ok=True)
        (made.place / name).write_text(text)
    (made.place / "scripts").mkdir()
    for name in ("release", "lib.sh"):
        (made.place / "scripts" / name).write_bytes((TOP / "scripts" / name).read_bytes())
    (made.place / "scripts/release").chmod(0o755)
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("add", ".")
    made.git("commit", "--quiet", "--message", "first")
    return made


def test_a_release_has_the_archive_the_changes_and_the_checksums(checkout: Checkout) -> None:
    place = checkout.released()
    assert {path.name for path in place.iterdir()} == {ARCHIVE, f"CHANGES-{VERSION}.md", "SHA256SUMS"}
    assert (place / f"CHANGES-{VERSION}.md").read_text() == CHANGES
    sums = [line.split("  ") for line in (place / "SHA256SUMS").read_text().splitlines()]
    assert {name: value for value, name in sums} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.iterdir() if path.name != "SHA256SUMS"}
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=place, check=True)


def test_the_archive_has_exactly_the_files_of_the_commit(checkout: Checkout) -> None:
    (checkout.place / "build").mkdir()
    (checkout.place / "build/hvdrun").write_text("built")  # in .gitignore
    with tarfile.open(checkout.released() / ARCHIVE) as archive:
        members = {member.name.removeprefix(f"hvdrun-{VERSION}/"): member for member in archive if member.isfile()}
        content = {name: archive.extractfile(member).read() for name, member in members.items()}
    assert content == {name: (checkout.place / name).read_bytes() for name in checkout.git("ls-files").splitlines()}
    assert members["scripts/release"].mode == 0o755 and members["CHANGELOG.md"].mode == 0o644


def test_the_same_commit_gives_the_same_archive(checkout: Checkout, tmp_path: Path) -> None:
    other = Checkout(tmp_path / "other")
    checkout.git("clone", "--quiet", str(checkout.place), str(other.place))
    other.git("config", "tar.umask", "0077")
    first, second = ((each.released(umask) / ARCHIVE).read_bytes() for each, umask in ((checkout, 0o022), (other, 0o077)))
    assert first == second
    assert tarfile.open(fileobj=io.BytesIO(first)).getmembers()


def test_a_release_makes_no_tag_and_pushes_nothing(checkout: Checkout, tmp_path: Path) -> None:
    remote = Checkout(tmp_path / "remote.git")
    checkout.git("clone", "--quiet", "--bare", str(checkout.place), str(remote.place))
    checkout.git("remote", "add", "origin", str(remote.place))
    checkout.replace("CHANGELOG.md", "Old", "Older")
    before = checkout.git("show-ref"), remote.git("show-ref")
    checkout.released()
    assert (checkout.git("show-ref"), remote.git("show-ref")) == before


def remove_heading(checkout: Checkout) -> None:
    checkout.replace("CHANGELOG.md", f"## {VERSION},", "## 1.2.1,")


def leave_changelog_undated(checkout: Checkout) -> None:
    checkout.replace("CHANGELOG.md", "2026-12-01", "not released yet")


def leave_packages_unreleased(checkout: Checkout) -> None:
    checkout.replace("debian/changelog", "bookworm", "UNRELEASED")


def other_version_of_cmake(checkout: Checkout) -> None:
    checkout.replace("CMakeLists.txt", VERSION, "1.2.4")


def other_version_of_packages(checkout: Checkout) -> None:
    checkout.replace("debian/changelog", VERSION, "1.2.4")


def other_version_of_the_module_horovod(checkout: Checkout) -> None:
    checkout.replace("python/hvd-horovod/pyproject.toml", VERSION, "1.2.4")


def other_version_of_the_easyconfig(checkout: Checkout) -> None:
    checkout.replace(f"packaging/easybuild/hvdrun-{VERSION}.eb", VERSION, "1.2.4")


def other_version_of_spack(checkout: Checkout) -> None:
    checkout.replace("packaging/spack/spack_repo/hvdrun/packages/hvdrun/package.py", VERSION, "1.2.4")


def change_a_file(checkout: Checkout) -> None:
    (checkout.place / "CHANGELOG.md").open("a").write("more\n")


def add_a_file(checkout: Checkout) -> None:
    (checkout.place / "new.txt").write_text("new\n")


def tag(checkout: Checkout) -> None:
    checkout.git("tag", f"v{VERSION}")


@pytest.mark.parametrize("spoil, words", [
    (change_a_file, "M CHANGELOG.md"),
    (add_a_file, "?? new.txt"),
    (remove_heading, f'CHANGELOG.md has no heading "## {VERSION}, DATE"'),
    (leave_changelog_undated, "put the date of the release there"),
    (leave_packages_unreleased, "debian/changelog has UNRELEASED"),
    (other_version_of_cmake, f"CMakeLists.txt has version 1.2.4, not {VERSION}"),
    (other_version_of_packages, f"debian/changelog has version 1.2.4, not {VERSION}"),
    (other_version_of_the_module_horovod, f"pyproject.toml has version 1.2.4, not {VERSION}"),
    (other_version_of_the_easyconfig, f"packaging/easybuild/hvdrun-{VERSION}.eb has version 1.2.4, not {VERSION}"),
    (other_version_of_spack, f"packages/hvdrun/package.py has version (none), not {VERSION}"),
    (tag, f"the tag v{VERSION} exists already")])
def test_a_release_with_an_inconsistent_checkout_is_refused(checkout: Checkout, spoil: Callable[[Checkout], None], words: str) -> None:
    spoil(checkout)
    done = checkout.release(VERSION, "--skip-wheel", "--skip-debs")
    assert done.returncode == 1 and words in done.stderr and done.stderr.startswith("release: "), done.stdout + done.stderr
    assert not (checkout.place / "build-release").exists()


@pytest.mark.parametrize("words", [[], ["1.2"], ["v1.2.3"], ["1.2.3", "1.2.4"], ["1.2.3", "--skip"], ["1.2.3", "--work"]])
def test_wrong_arguments_of_the_release_script_print_the_usage(checkout: Checkout, words: list[str]) -> None:
    done = checkout.release(*words)
    assert done.returncode == 1 and "usage: release VERSION" in done.stderr, done.stdout + done.stderr


def test_a_failed_release_step_keeps_the_files_of_the_earlier_release(checkout: Checkout) -> None:
    place = checkout.released()
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    (checkout.place / "scripts/wheel").write_text("#!/bin/sh\necho 'no compiler' >&2\nexit 1\n")
    (checkout.place / "scripts/wheel").chmod(0o755)
    checkout.git("add", ".")
    checkout.git("commit", "--quiet", "--message", "wheel")
    done = checkout.release(VERSION, "--skip-debs")
    assert done.returncode == 1 and done.stderr == "no compiler\n", done.stdout + done.stderr
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
