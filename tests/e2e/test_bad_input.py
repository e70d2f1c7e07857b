"""hvdrun rejects bad input with one clear error and starts nothing.

The gate runs the first row of each table here. The unit tests of the command line cover every value.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess

import pytest

from harness import Done, HVDRUN, Sandbox, TIME_LIMIT, program


def one_in_gate(*rows: tuple[object, ...]) -> list[object]:
    """Returns the rows as parameters of a test, and marks all but the first slow."""
    return [pytest.param(*row, marks=pytest.mark.slow if at else ()) for at, row in enumerate(rows)]


def refused(sandbox: Sandbox, *arguments: object, code: int = 2, **more: object) -> Done:
    """Runs hvdrun, and checks that it exits with `code`, prints at most three lines and starts no program."""
    marker = sandbox.files / "started"
    done = sandbox.run(*arguments, "touch", marker, **more).expect(code)
    assert not marker.exists() and done.out == b""
    assert 0 < done.err.count(b"\n") <= 3, done
    return done


@pytest.mark.parametrize("value", one_in_gate(
    ("0",), ("-1",), ("abc",), ("10000000",), ("",), ("2.5",), ("99999999999999999999",), ("1e3",), (" 2",)))
def test_an_invalid_number_of_ranks_is_an_error(sandbox: Sandbox, value: str) -> None:
    assert "-np" in refused(sandbox, "-np", value).err_text


@pytest.mark.slow
def test_an_option_without_its_value_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-np").expect(2)
    assert "-np" in done.err_text


@pytest.mark.slow
def test_a_command_line_without_a_program_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2).expect(2)
    assert "program" in done.err_text


@pytest.mark.parametrize("wrong, nearest", one_in_gate(
    ("--output-filenam", "--output-filename"), ("--gpu-bnid", "--gpu-bind"), ("--lable", "--label")))
def test_the_error_for_an_unknown_option_suggests_the_most_similar_one(sandbox: Sandbox, wrong: str, nearest: str) -> None:
    done = refused(sandbox, "-np", 2, wrong, "x")
    assert wrong in done.err_text and nearest in done.err_text


@pytest.mark.parametrize("option, value", one_in_gate(
    ("--bind-to", "hwthread"), ("--gpu-bind", "some"), ("--pmix", "maybe"), ("--stdin", "everyone"),
    ("--only-rank", "3-1"), ("--only-rank", "x"), ("--kill-signal", "SIGNOTHING"), ("--grace", "-1"),
    ("--grace", "soon"), ("--exit-timeout", "x"), ("--start-timeout", "0"), ("-x", "=value"),
    ("-H", "localhost:0"), ("-H", "localhost:x"), ("--label", "{nothing}"), ("--cpus-per-rank", "0"),
))
def test_an_invalid_value_is_an_error_that_names_option_and_value(sandbox: Sandbox, option: str, value: str) -> None:
    done = refused(sandbox, "-np", 2, option, value)
    assert option in done.err_text and value in done.err_text


@pytest.mark.slow
def test_only_rank_with_a_rank_outside_the_job_is_an_error(sandbox: Sandbox) -> None:
    assert "--only-rank" in refused(sandbox, "-np", 2, "--only-rank", "0,7").err_text


def test_ranks_of_an_unknown_host_are_not_started_on_this_host(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "-H", "elsewhere.invalid:2", "true").expect(125)
    assert "could not start on elsewhere.invalid" in done.err_text and not done.survivors


def test_more_ranks_than_slots_is_an_error(sandbox: Sandbox) -> None:
    refused(sandbox, "-np", 3, "-H", "localhost:2")


@pytest.mark.parametrize("text, line", one_in_gate(
    ('{\n  "num-proc": 2,\n  oops\n}\n', 3),
    ('{\n  "num-proc": "two"\n}\n', 2),
    ('{\n  "num-proc": 2,\n  "colour": "never"\n}\n', 3),
    ("[1, 2]\n", 1),
    ('{"num-proc": 2, "num-proc": 3}\n', 1),
))
def test_the_error_for_a_broken_config_file_names_file_and_line(sandbox: Sandbox, text: str, line: int) -> None:
    path = sandbox.files / "job.json"
    path.write_text(text)
    assert f"{path}:{line}" in refused(sandbox, "--config-file", path).err_text


@pytest.mark.slow
def test_a_missing_config_file_is_an_error(sandbox: Sandbox) -> None:
    assert "missing.json" in refused(sandbox, "--config-file", "missing.json").err_text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["directory", "empty"])
def test_a_config_file_that_is_a_directory_or_empty_is_an_error(sandbox: Sandbox, kind: str) -> None:
    path = sandbox.files / "job.json"
    path.mkdir() if kind == "directory" else path.touch()
    assert f"{path}:" in refused(sandbox, "--config-file", path).err_text


@pytest.mark.parametrize("words, missing", [
    (("python3", "trian.py"), "\"trian.py\" does not exist; did you mean train.py?"),
    (("env", "A=1", "sh", "nosuch.sh"), "\"nosuch.sh\" does not exist"),
    (("--wrap", "nosuchtool -x", "true"), "there is no program \"nosuchtool\" in PATH")])
def test_a_file_that_every_rank_would_miss_is_an_error_before_they_start(
        sandbox: Sandbox, words: tuple[str, ...], missing: str) -> None:
    (sandbox.files / "train.py").write_text("")
    done = sandbox.run("-np", 4, *words).expect(127)
    assert done.err_text == f"hvdrun: error: {missing}\n", done


def test_the_command_line_overrides_the_config_file(sandbox: Sandbox) -> None:
    path = sandbox.files / "job.json"
    path.write_text(json.dumps({"num-proc": 3, "label": "none"}))
    done = sandbox.run("--config-file", path, "-np", 2, "echo", "x").expect(0)
    assert done.out == b"x\nx\n"


@pytest.mark.slow
def test_explain_prints_the_source_of_each_setting(sandbox: Sandbox) -> None:
    path = sandbox.files / "job.json"
    path.write_text(json.dumps({"num-proc": 3, "grace": 1}))
    done = sandbox.run("--config-file", path, "-np", 2, "--explain", "true").expect(0)
    by_name = {line.split()[0]: line for line in done.out_lines if line.strip()}
    assert any("job.json" in line and "grace" in name for name, line in by_name.items())
    assert any("command line" in line for line in done.out_lines)


def test_no_rank_starts_if_the_output_folder_cannot_be_made(sandbox: Sandbox) -> None:
    (sandbox.files / "file").write_text("")
    done = sandbox.run("-np", 2, "--output-filename", sandbox.files / "file/logs", "touch", sandbox.files / "started")
    assert 0 < done.code < 128 and not (sandbox.files / "started").exists()
    assert str(sandbox.files / "file/logs") in done.err_text


def test_version_help_and_check_build_print_to_stdout_only(sandbox: Sandbox) -> None:
    for option, text in (("-v", b"0."), ("--help", b"-np"), ("--check-build", b"PMIx")):
        done = sandbox.run(option).expect(0)
        assert text in done.out and done.err == b""


@pytest.mark.slow
def test_lines_of_help_have_at_most_100_columns(sandbox: Sandbox) -> None:
    assert max(len(line) for line in sandbox.run("--help").expect(0).out_lines) <= 100


@pytest.mark.slow
def test_hvdrun_without_arguments_prints_its_usage(sandbox: Sandbox) -> None:
    link = sandbox.files / "hvdrun"
    link.symlink_to(HVDRUN)
    done = sandbox.run(tool=link).expect(2)
    assert "usage" in done.err_text.lower() or "--help" in done.err_text


def test_a_missing_tmpdir_is_a_warning_and_the_job_uses_tmp(sandbox: Sandbox) -> None:
    """Some SLURM prologs make TMPDIR on the first host only."""
    done = sandbox.run("-np", 2, program("pmix_client"), env={"TMPDIR": "/nonexistent"}).expect(0)
    assert sorted(done.out_lines) == [f"[{rank}] rank {rank} of 2: sum 1" for rank in range(2)], done
    assert re.search(r"^hvdrun: warning: \S+: cannot make the job's folder /nonexistent/hvd-\w+-0-tmp: No such file or directory "
                     r"\(TMPDIR\); using /tmp$", done.err_text, re.MULTILINE), done
    assert not glob.glob(f"/tmp/{re.search('hvd-[0-9a-f]+', done.err_text)[0]}*"), "the job left its folder in /tmp"


def test_both_folders_of_a_job_may_be_in_dev_shm(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, program("pmix_client"), env={"TMPDIR": "/dev/shm"}).expect(0)
    assert "warning" not in done.err_text, done


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a read-only /tmp")
def test_the_error_for_a_read_only_tmp_names_tmpdir(sandbox: Sandbox) -> None:
    sandbox.mounts.append("mount --rbind /tmp /tmp && mount -o remount,bind,ro /tmp && unset TMPDIR")
    done = sandbox.run("-c", 'cd / && exec "$0" "$@"', HVDRUN, "-np", 1, "true", tool="/bin/sh").expect(125)
    assert re.search(r"cannot make the job's folder /tmp/hvd-\S+: Read-only file system; TMPDIR can name another place", done.err_text), done


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a network without loopback")
def test_a_machine_without_loopback_is_a_warning(sandbox: Sandbox) -> None:
    done = sandbox.run("--net", HVDRUN, "-np", 2, "true", tool="/usr/bin/unshare").expect(0)
    assert "no address 127.0.0.1" in done.err_text and "ip link set lo up" in done.err_text, done
    assert "127.0.0.1" not in sandbox.run("-np", 2, "true").expect(0).err_text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a read-only /dev/shm")
def test_the_error_for_a_read_only_dev_shm_suggests_a_tmpfs(sandbox: Sandbox) -> None:
    sandbox.mounts.append("mount -o remount,bind,ro /dev/shm")
    done = sandbox.run("-np", 2, "touch", sandbox.files / "started").expect(125)
    assert "/dev/shm/hvd-" in done.err_text and "Read-only file system" in done.err_text and "tmpfs" in done.err_text, done
    assert not (sandbox.files / "started").exists()


def test_a_low_limit_of_open_files_is_an_error_before_ranks_start(sandbox: Sandbox) -> None:
    done = sandbox.run("-c", 'ulimit -n 64; exec "$0" "$@"', HVDRUN, "-np", 12, "touch", sandbox.files / "started", tool="/bin/sh")
    assert done.code == 2 and not (sandbox.files / "started").exists(), done.err_text
    assert "12 ranks on " in done.err_text and "and the limit is 64: raise ulimit -n" in done.err_text, done.err_text


def under_a_file_size_limit(sandbox: Sandbox, blocks: int, *arguments: object, **options: object) -> tuple[int, str]:
    """Runs hvdrun with stderr as a pipe, because the limit applies to files; returns exit code and stderr."""
    words = ["-c", f'ulimit -f {blocks}; exec "$0" "$@"', HVDRUN, *arguments]
    running = sandbox.start(*words, tool="/bin/sh", stderr=subprocess.PIPE, **options)
    _, err = running.process.communicate(timeout=TIME_LIMIT)
    return running.process.returncode, err.decode()


@pytest.mark.parametrize("blocks", [0, 1])
def test_a_file_size_limit_too_low_for_a_job_is_an_error(sandbox: Sandbox, blocks: int) -> None:
    code, text = under_a_file_size_limit(sandbox, blocks, "-np", 2, "echo", "x")
    assert code == 125 and "File too large" in text and "raise ulimit -f" in text, (code, text)
    assert not sandbox.leftovers()


@pytest.mark.parametrize("choice, code", [("continue", 0), ("stop", 125)])
def test_the_error_names_stdout_if_its_file_reaches_the_size_limit(sandbox: Sandbox, choice: str, code: int) -> None:
    with open(sandbox.files / "out", "wb") as out:
        out.truncate(100 << 20)
        out.seek(100 << 20)
        end, text = under_a_file_size_limit(sandbox, (100 << 20) // 512, "-np", 2, "--on-output-error", choice, "echo", "x",
                                            stdout=out)
    assert end == code and "cannot write hvdrun's stdout: File too large" in text, (end, text)
    assert not sandbox.leftovers()


@pytest.mark.parametrize("files", [5, 7])
def test_too_few_descriptors_for_the_launcher_are_an_error_of_one_line(sandbox: Sandbox, files: int) -> None:
    done = sandbox.run("-c", f'ulimit -n {files}; exec "$0" "$@"', HVDRUN, "-np", 2, "touch", sandbox.files / "started",
                       tool="/bin/sh").expect(125)
    line = rf"hvdrun: error: .*cannot .*: Too many open files \(this process may have {files}; raise ulimit -n\)\n"
    assert re.fullmatch(line, done.err_text), done.err_text


def test_hvdrun_with_too_few_descriptors_does_not_hang(sandbox: Sandbox) -> None:
    done = sandbox.run("-c", 'ulimit -n 24; exec "$0" "$@"', HVDRUN, "-np", 64, "touch", sandbox.files / "started",
                       tool="/bin/sh")
    assert done.code in (0, 2, 125) and not done.survivors, done
