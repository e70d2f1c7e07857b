"""The installation by `cmake --install` is complete: programs, library, package files, manual page, completion scripts."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from harness import BUILD, PYTHON, TOP, Sandbox
from installation import PROGRAM, PROJECT


def run(*words: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    plain = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([str(word) for word in words], cwd=cwd, env={**plain, **(env or {})}, capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("with space") / "prefix"
    run("cmake", "--install", BUILD, "--prefix", place)
    return place


def test_cmake_finds_the_installed_package_and_builds_a_program(prefix: Path, tmp_path: Path, sandbox: Sandbox) -> None:
    (tmp_path / "first.cpp").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "out", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "out")
    assert sandbox.run(tool=tmp_path / "out/first").expect(0).out == b"sum 1 of 1 ranks\n"
    under = sandbox.run("-np", 2, tmp_path / "out/first", tool=prefix / "bin/hvdrun").expect(0)
    assert b"sum 3 of 2 ranks\n" in under.out


def test_hvdrun_look_is_in_the_folder_of_helpers(prefix: Path) -> None:
    assert "usage: hvdrun-look " in run(prefix / "libexec/hvd/hvdrun-look", "--help")


def test_pkg_config_finds_the_installed_package_and_builds_a_program(prefix: Path, tmp_path: Path, sandbox: Sandbox) -> None:
    (tmp_path / "first.cpp").write_text(PROGRAM)
    [folder] = {path.parent for path in prefix.rglob("hvd.pc")}
    flags = run("pkg-config", "--cflags", "--libs", "hvd", env={"PKG_CONFIG_PATH": str(folder)})
    # Runs in a shell because pkg-config quotes the space in the prefix for a shell.
    run("sh", "-c", f"c++ -std=c++20 first.cpp -o first {flags.strip()} -Wl,-rpath,'{folder.parent}'", cwd=tmp_path)
    assert sandbox.run(tool=tmp_path / "first").expect(0).out == b"sum 1 of 1 ranks\n"


def test_the_mpi_plugin_is_in_the_folder_of_libhvd_and_links_with_mpi(prefix: Path) -> None:
    [library] = prefix.rglob("libhvd.so")
    linked = run("ldd", library.parent / "libhvd_mpi.so")
    assert "libmpi.so" in linked and "not found" not in linked
    assert "libmpi" not in run("ldd", library)


def test_the_c_header_compiles_as_c11(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "first.c").write_text("#include <hvd/hvd.h>\nint main(void) { return hvd_init() != 0; }\n")
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
        f"-I{prefix}/include", tmp_path / "first.c")


def test_a_moved_installation_runs_jobs(prefix: Path, sandbox: Sandbox) -> None:
    moved = sandbox.files / "elsewhere"
    run("cp", "-r", prefix, moved)
    done = sandbox.run("-np", 2, "echo", "x", tool=moved / "bin/hvdrun").expect(0)
    assert sorted(done.out_lines) == ["[0] x", "[1] x"]


def test_the_installed_hvdrun_finds_its_templates_and_pages_and_names_its_own_path(prefix: Path, sandbox: Sandbox) -> None:
    listed = sandbox.run("templates", tool=prefix / "bin/hvdrun").expect(0).out_lines[1:]
    assert len(listed) == 5 and all(f" {prefix}/share/hvdrun/templates/" in line for line in listed), listed
    assert "What a message means" in sandbox.run("help", "errors", tool=prefix / "bin/hvdrun").expect(0).out_text
    script = sandbox.run("sbatch", "-np", 1, "--gpus-per-node", 0, "--", "true", tool=prefix / "bin/hvdrun").expect(0)
    assert script.out_lines[-1] == f"exec '{prefix}/bin/hvdrun' -np 1 -- true", script


def test_a_moved_build_folder_works_without_the_checkout(sandbox: Sandbox) -> None:
    """As root, the test hides the checkout and the original build folder."""
    moved = sandbox.files / "elsewhere"
    moved.mkdir()
    for name in ("bin/hvdrun", "bin/examples", "lib/libhvd.so*", "share"):
        for source in BUILD.glob(name):
            run("cp", "-a", "--parents", source.relative_to(BUILD), moved, cwd=BUILD)
    if sandbox.isolated:
        sandbox.mounts += [f"mount -t tmpfs tmpfs {shlex.quote(str(folder))}" for folder in (BUILD, TOP)]
    hvdrun = moved / "bin/hvdrun"
    trained = sandbox.run("-np", 2, moved / "bin/examples/digits", "--epochs", 1, tool=hvdrun).expect(0)
    assert "test accuracy" in trained.out_text, trained
    listed = sandbox.run("templates", tool=hvdrun).expect(0).out_lines[1:]
    assert len(listed) == 5 and all(f" {moved}/share/hvdrun/templates/" in line for line in listed), listed
    code = "import horovod, hvd; from hvd import _library; print(horovod.__file__, hvd.__file__, _library.path, sep='\\n')"
    found = sandbox.run("--horovod", "-np", 1, PYTHON, "-B", "-c", code, tool=hvdrun).expect(0).out_lines
    package = moved / "share/hvd/python/hvd"
    assert found == [f"{moved}/share/hvdrun/horovod/horovod/__init__.py", f"{package}/__init__.py", f"{package}/lib/libhvd.so.0"]


def test_the_python_package_of_a_moved_installation_finds_its_libhvd(prefix: Path, sandbox: Sandbox) -> None:
    moved = sandbox.files / "elsewhere"
    run("cp", "-a", prefix, moved)
    [library] = moved.rglob("libhvd.so.0")
    code = "import hvd, os.path; from hvd import _library; hvd.init(); print(os.path.realpath(_library.path))"
    done = sandbox.run("-np", 2, "--label", "none", PYTHON, "-B", "-c", code, tool=moved / "bin/hvdrun",
                       env={"PYTHONPATH": str(moved / "share/hvd/python")}).expect(0)
    assert done.out_lines == [str(library.resolve())] * 2


def test_option_horovod_makes_programs_import_the_installed_modules(prefix: Path, sandbox: Sandbox) -> None:
    code = "import horovod, hvd, os; print(*map(os.path.dirname, (horovod.__file__, hvd.__file__)), sep='\\n')"
    found = sandbox.run("--horovod", "-np", 1, PYTHON, "-B", "-c", code, tool=prefix / "bin/hvdrun").expect(0).out_lines
    assert found == [f"{prefix}/share/hvdrun/horovod/horovod", f"{prefix}/share/hvd/python/hvd"]


def test_horovodrun_is_a_link_to_the_hvdrun_of_its_folder(prefix: Path, sandbox: Sandbox) -> None:
    place = sandbox.files / "läufer und mehr"  # a copy: its link must lead to the copy's hvdrun
    run("cp", "-a", prefix, place)
    assert os.readlink(place / "bin/horovodrun") == "hvdrun"
    code = "import horovod, os; print(os.path.dirname(horovod.__file__))"
    done = sandbox.run("-np", 1, PYTHON, "-B", "-c", code, tool=place / "bin/horovodrun").expect(0)
    assert done.out_lines == [f"{place}/share/hvdrun/horovod/horovod"]


def test_the_installed_manual_page_has_every_option_of_the_help(prefix: Path) -> None:
    [page] = prefix.rglob("hvdrun.1")
    text = re.sub(".\b", "", run("mandoc", "-T", "ascii", page))  # mandoc prints a bold letter twice
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", run(prefix / "bin/hvdrun", "--help")))
    assert options and not [option for option in sorted(options) if option not in text]


def test_bash_completes_options_and_their_values(prefix: Path) -> None:
    script, horovodruns = (prefix / "share/bash-completion/completions" / name for name in ("hvdrun", "horovodrun"))
    assert script.read_bytes() == horovodruns.read_bytes()  # bash loads the file that is named as the command
    run("bash", "-n", script)
    assert "--label" in completions(script, "hvdrun", "--la")
    commands = completions(script, "hvdrun", "sb")  # once, although SLURM has a program of that name, too
    assert "sbatch" in commands and len(commands) == len(set(commands)), commands
    assert {"core", "numa", "none"} <= set(completions(script, "hvdrun", "--bind-to", ""))
    assert "follow" in completions(script, "hvdrun", "follo")
    assert "follow" not in completions(script, "horovodrun", "follo")
    assert "--hostfile" in completions(script, "horovodrun", "--hostf")


def test_completion_scripts_for_zsh_and_fish_are_installed(prefix: Path) -> None:
    assert (prefix / "share/zsh/site-functions/_hvdrun").read_text().startswith("#compdef hvdrun horovodrun\n")
    assert "complete -c hvdrun" in (prefix / "share/fish/vendor_completions.d/hvdrun.fish").read_text()


def completions(script: Path, *words: str) -> list[str]:
    """Returns what bash offers as completions of the last word."""
    quoted = " ".join(f"'{word}'" for word in words)
    return run("bash", "--norc", "-c",
               f'. "$0"; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMP_LINE="${{COMP_WORDS[*]}}"; '
               f'COMP_POINT=${{#COMP_LINE}}; COMPREPLY=(); '
               f'function=$(complete -p {words[0]} | sed "s/.*-F \\([^ ]*\\).*/\\1/"); '
               f'"$function" {words[0]} "{words[-1]}" "{words[-2]}"; '
               f'printf "%s\\n" "${{COMPREPLY[@]}}"', script).split()
