"""scripts/release makes a release with the wheel and the Debian packages from a copy of this checkout.

tests/install/test_release.py tests which releases it refuses. This test needs the tools of scripts/wheel and scripts/debs, and
shares the build folders of tests/wheel and test_debian.py.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

import pytest

from debian_root import run
from harness import TOP, copy_checkout

pytestmark = pytest.mark.xdist_group("packages")


def replace(file: Path, pattern: str, new: str) -> None:
    text, count = re.subn(pattern, new, file.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1, (file, pattern)
    file.write_text(text)


def test_a_release_has_archive_wheel_packages_and_checksums() -> None:
    place = TOP / "build-release/of-the-test"
    shutil.rmtree(place, ignore_errors=True)
    copy_checkout(place)
    [version] = re.findall(r"^project\(hvdrun VERSION ([0-9.]+)", (place / "CMakeLists.txt").read_text(), re.MULTILINE)
    replace(place / "CHANGELOG.md", rf"^## {re.escape(version)}, .*", f"## {version}, 2026-12-01")
    replace(place / "debian/changelog", r"^(hvdrun \(.*\)) \w+;", r"\1 bookworm;")
    git = ["git", "-C", place, "-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    run([*git, "init", "--quiet"])
    run([*git, "add", "--force", "."])
    run([*git, "commit", "--quiet", "--message", "all"])

    run(["nice", "-n", "10", place / "scripts/release", version, "--work", TOP])
    made = place / "build-release" / version
    names = sorted(re.sub(r"_(amd64|arm64|ppc64el)\.deb$", "_ARCH.deb", path.name) for path in made.iterdir())
    assert names == sorted([
        f"hvdrun-{version}.tar.gz", f"CHANGES-{version}.md", "SHA256SUMS", f"hvd-{version}-py3-none-manylinux_2_28_x86_64.whl",
        f"hvdrun_{version}_ARCH.deb", f"libhvd0_{version}_ARCH.deb", f"libhvd-dev_{version}_ARCH.deb", f"python3-hvd_{version}_all.deb"])
    run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=made)
    with tarfile.open(made / f"hvdrun-{version}.tar.gz") as archive:
        files = {member.name.removeprefix(f"hvdrun-{version}/") for member in archive if not member.isdir()}
    assert files == set(run([*git, "ls-files"]).stdout.splitlines())
