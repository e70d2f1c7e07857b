"""Start of ranks: their number, their program and their environment."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from harness import HOSTNAME, PYTHON, Done, Sandbox, program

# Variables of a SLURM step or an MPI launcher that starts hvdrun. They describe hvdrun's own process, not a rank.
SLURM_NOISE = {
    "SLURM_PROCID": "5", "SLURM_LOCALID": "3", "SLURM_NODEID": "9", "SLURM_NTASKS": "77",
    "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1",
    "SLURM_TASK_PID": "1", "PMI_RANK": "4", "PMI_SIZE": "9", "PMI_FD": "7", "PMIX_RANK": "3",
    "PMIX_NAMESPACE": "slurm.pmix.1.0", "OMPI_COMM_WORLD_RANK": "6",
}


def dump(sandbox: Sandbox, *options: object, arguments: tuple[str, ...] = (), **more: object) -> Done:
    return sandbox.run(*options, program("env_dump"), sandbox.files, *arguments, **more).expect(0)


def environment(sandbox: Sandbox, rank: int) -> dict[str, str]:
    text = (sandbox.files / f"{rank}.env").read_bytes()
    return dict(os.fsdecode(entry).split("=", 1) for entry in text.split(b"\0") if entry)


@pytest.mark.core
@pytest.mark.parametrize("size", [1, 2, 5])
def test_np_sets_the_number_of_ranks(sandbox: Sandbox, size: int) -> None:
    done = sandbox.run("-np", size, "sh", "-c", "echo $HVD_RANK/$HVD_SIZE").expect(0)
    ranks = sorted(line.split()[-1] for line in done.out_lines)
    assert ranks == sorted(f"{rank}/{size}" for rank in range(size))


def test_without_np_hvdrun_starts_one_rank_per_slot(sandbox: Sandbox) -> None:
    done = sandbox.run("sh", "-c", "echo $HVD_SIZE").expect(0)
    assert len(done.out_lines) == len(os.sched_getaffinity(0)), "without GPUs each core is a slot"


def test_the_slots_of_a_host_set_the_number_of_ranks(sandbox: Sandbox) -> None:
    assert len(sandbox.run("-H", "localhost:3", "true").expect(0).report["ranks"]) == 3


def test_ranks_per_host_sets_the_number_of_ranks_of_a_host(sandbox: Sandbox) -> None:
    done = sandbox.run("--ranks-per-host", 3, "sh", "-c", "echo $HVD_LOCAL_SIZE").expect(0)
    assert [line.split()[-1] for line in done.out_lines] == ["3"] * 3


@pytest.mark.core
def test_every_rank_gets_all_documented_variables(sandbox: Sandbox) -> None:
    size = 3
    dump(sandbox, "-np", size)
    environments = [environment(sandbox, rank) for rank in range(size)]
    for rank, given in enumerate(environments):
        expected = {
            "HVD_RANK": rank, "HVD_SIZE": size, "HVD_LOCAL_RANK": rank, "HVD_LOCAL_SIZE": size,
            "HVD_NODE_RANK": 0, "HVD_NODE_COUNT": 1,
            "RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size,
            "GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1, "NODE_RANK": 0, "LOCAL_SIZE": size,
            "CCL_PROCESS_LAUNCHER": "torchrun", "CCL_ATL_TRANSPORT": "ofi",
            "HOROVOD_RANK": rank, "HOROVOD_SIZE": size, "HOROVOD_LOCAL_RANK": rank,
            "HOROVOD_LOCAL_SIZE": size, "HOROVOD_CROSS_RANK": 0, "HOROVOD_CROSS_SIZE": 1,
            "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": size,
            "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": size,
            "OMPI_COMM_WORLD_NODE_RANK": rank,
            "PYTHONUNBUFFERED": 1, "PMIX_RANK": rank,
        }
        assert {name: given.get(name) for name in expected} == {name: str(value) for name, value in expected.items()}
        assert given["HVD_HOSTNAME"] == given["HOROVOD_HOSTNAME"] != ""
        assert re.fullmatch(r"[0-9a-f]{32}", given["HVD_JOB_ID"])
        assert re.fullmatch(r"[0-9a-f]{64}", given["HVD_JOB_KEY"])
        assert re.fullmatch(r"/dev/shm/.+@\d+", given["HVD_STATUS"])
        assert given["HVD_SHM_DIR"].startswith("/dev/shm/")
        assert given["HVD_NOTICE_FD"] in (sandbox.files / f"{rank}.fds").read_text().split()
        assert given["MASTER_ADDR"] and 0 < int(given["MASTER_PORT"]) < 65536
        assert abs(int(given["HVD_PORT"]) - int(given["MASTER_PORT"])) > 64, "HVD_PORT lies among the ports of the program"
        assert "HVD_LOCAL_DEVICE" not in given
    same = ["HVD_JOB_ID", "HVD_JOB_KEY", "MASTER_ADDR", "MASTER_PORT", "HVD_PORT", "HVD_SHM_DIR"]
    assert all(given[name] == environments[0][name] for given in environments for name in same)
    assert len({given["HVD_STATUS"] for given in environments}) == size, "two ranks share a status page"


def test_each_job_has_its_own_id_and_key(sandbox: Sandbox) -> None:
    given = []
    for _ in range(2):
        dump(sandbox, "-np", 1)
        given.append(environment(sandbox, 0))
    for name in ("HVD_JOB_ID", "HVD_JOB_KEY"):
        assert given[0][name] != given[1][name]


def test_a_rank_inherits_the_callers_other_variables_unchanged(sandbox: Sandbox) -> None:
    nasty = {"NEWLINES": "a\nb\n", "EMPTY": "", "EQUALS": "a=b=c", "LATIN": "caf\udce9", "HUGE": "h" * 131000}
    dump(sandbox, "-np", 2, env=nasty)
    for rank in range(2):
        given = environment(sandbox, rank)
        assert {name: given.get(name) for name in nasty} == nasty


def test_x_passes_and_sets_variables(sandbox: Sandbox) -> None:
    dump(sandbox, "-np", 1, "-x", "KEPT", "-x", "SET=to this=that", "-x", "KEPT_TOO=",
         env={"KEPT": "mine", "SET": "before"})
    given = environment(sandbox, 0)
    assert (given["KEPT"], given["SET"], given["KEPT_TOO"]) == ("mine", "to this=that", "")


def test_a_rank_keeps_the_callers_pythonunbuffered(sandbox: Sandbox) -> None:
    dump(sandbox, "-np", 1, env={"PYTHONUNBUFFERED": ""})
    assert environment(sandbox, 0)["PYTHONUNBUFFERED"] == ""


def test_step_variables_around_hvdrun_are_corrected_or_removed_for_ranks(sandbox: Sandbox) -> None:
    dump(sandbox, "-np", 2, env=SLURM_NOISE)
    for rank in range(2):
        given = environment(sandbox, rank)
        truth = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0", "SLURM_NTASKS": "2",
                 "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2",
                 "PMI_RANK": str(rank), "PMI_SIZE": "2", "PMIX_RANK": str(rank), "OMPI_COMM_WORLD_RANK": str(rank)}
        wrong = {name: given[name] for name in SLURM_NOISE
                 if name in given and given[name] != truth.get(name) and name != "PMIX_NAMESPACE"}
        assert not wrong
        assert given["PMIX_NAMESPACE"] != SLURM_NOISE["PMIX_NAMESPACE"]


def test_in_a_slurm_job_ranks_get_variables_of_a_step_with_these_ranks(sandbox: Sandbox) -> None:
    """hvdrun uses one host of an allocation of four hosts."""
    allocation = {"SLURM_JOB_ID": "4242", "SLURM_NNODES": "4", "SLURM_JOB_NUM_NODES": "4", "SLURM_NTASKS_PER_NODE": "8",
                  "SLURM_JOB_NODELIST": f"{HOSTNAME},a[2-4]", "SLURM_NODELIST": f"{HOSTNAME},a[2-4]", "SLURM_TASKS_PER_NODE": "8(x4)"}
    dump(sandbox, "-np", 2, "-H", "localhost:2", env={**SLURM_NOISE, **allocation})
    for rank in range(2):
        given = environment(sandbox, rank)
        expected = {"SLURM_JOB_ID": "4242", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0",
                    **{name: "2" for name in ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE",
                                              "SLURM_TASKS_PER_NODE", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE")},
                    **{name: "1" for name in ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES")},
                    **{name: given["HVD_HOSTNAME"] for name in ("SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST")}}
        assert {name: given.get(name) for name in expected} == expected
        assert re.fullmatch(r"\d{4}", given["SLURM_STEP_ID"]) and given["SLURM_STEPID"] == given["SLURM_STEP_ID"]
        assert (given["SLURM_GTIDS"], given["SLURM_LAUNCH_NODE_IPADDR"]) == ("0,1", "127.0.0.1")


def test_the_for_option_sets_the_frameworks_variables_with_distinct_ports(sandbox: Sandbox) -> None:
    dump(sandbox, "-np", 2, "--for", "tensorflow,mlx", "--for", "jax", "--for", "torchrun")
    given = [environment(sandbox, rank) for rank in range(2)]
    configs = [json.loads(each["TF_CONFIG"]) for each in given]
    workers = configs[0]["cluster"]["worker"]
    assert [config["task"] for config in configs] == [{"type": "worker", "index": rank} for rank in range(2)]
    assert all(config["cluster"]["worker"] == workers for config in configs)
    ports = [given[0]["MASTER_PORT"], given[0]["HVD_PORT"], given[0]["JAX_COORDINATOR_ADDRESS"].rpartition(":")[2],
             given[0]["NCCL_PORT"], *(worker.rpartition(":")[2] for worker in workers)]
    assert len(set(ports)) == 6, ports
    assert [each["MLX_RANK"] for each in given] == ["0", "1"]
    assert given[0]["TORCHELASTIC_RUN_ID"] == given[0]["HVD_JOB_ID"]
    ring = "import json, os; print(json.load(open(os.environ['MLX_HOSTFILE'])))"
    done = sandbox.run("-np", 2, "--for", "mlx", "--label", "none", PYTHON, "-c", ring).expect(0)
    assert re.fullmatch(r"(\[\['127\.0\.0\.1:\d+'\], \['127\.0\.0\.1:\d+'\]\]\n)\1", done.out_text), done


def test_for_accelerate_sets_variables_from_its_config_file(sandbox: Sandbox) -> None:
    config = sandbox.files / "accelerate/default_config.yaml"
    config.parent.mkdir()
    config.write_text("distributed_type: FSDP\nfsdp_config:\n  fsdp_offload_params: true\nmixed_precision: bf16\n")
    show = ("sh", "-c", "echo $ACCELERATE_MIXED_PRECISION $ACCELERATE_USE_FSDP $FSDP_OFFLOAD_PARAMS")
    home = {"HF_HOME": str(sandbox.files)}
    assert sandbox.run("-np", 1, "--for", "accelerate", *show, env=home).expect(0).out == b"bf16 true true\n"
    assert sandbox.run("-np", 1, *show, env=home).expect(0).out == b"\n"
    config.write_text("nonsense\n")
    assert f"--for accelerate: {config}: line 1" in sandbox.run("-np", 1, "--for", "accelerate", *show, env=home).expect(2).err_text


def test_print_env_matches_the_environment_of_the_rank(sandbox: Sandbox) -> None:
    options = ("-np", 2, "-x", "MINE=two words", "--for", "torchrun")
    noise = {"SLURM_STEP_ID": "5"}
    printed = sandbox.run(*options, "--print-env", "--only-rank", 1, "true", env=noise).expect(0).out_lines
    dump(sandbox, *options, env=noise)
    given = environment(sandbox, 1)
    assert "# SLURM_STEP_ID is removed: it describes the process that called hvdrun" in printed
    shown = {}
    for line in printed:
        if not line.startswith("#"):
            variable, _, reason = line.partition("  # ")
            assert reason, line
            name, _, shown[name] = variable.partition("=")
    assert shown["RANK"] == "1" and shown["MINE"] == "two words" and shown["ROLE_RANK"] == "1"
    differ = {name for name, value in shown.items()
              if "<" not in value and given.get(name) != value}
    assert not differ


def test_wrap_puts_a_command_before_the_program_of_all_or_some_ranks(sandbox: Sandbox) -> None:
    program = ("sh", "-c", 'echo $HVD_RANK ${WRAPPED:-not} "$1" >> said', "sh", "two  words; $x")
    sandbox.run("-np", 3, "--wrap", "env WRAPPED=$RANK-$((RANK * 2))", *program).expect(0)
    assert sorted(sandbox.lines_of("said")) == [[str(rank), f"{rank}-{2 * rank}", "two", "words;", "$x"] for rank in range(3)]
    (sandbox.files / "said").unlink()
    sandbox.run("-np", 3, "--wrap", "0,2:env WRAPPED=yes", *program).expect(0)
    assert [words[1] for words in sorted(sandbox.lines_of("said"))] == ["yes", "not", "yes"]


@pytest.mark.parametrize("value, code, said", [
    ("no-such-profiler -x", 127, 'there is no program "no-such-profiler" in PATH'), ("2:env", 2, "--wrap names rank 2, but the job has 2 ranks"),
    ("1:", 2, "--wrap needs a command such as"), ("2-1:env", 2, "--wrap ")])
def test_wrap_with_a_bad_command_or_rank_is_an_error(sandbox: Sandbox, value: str, code: int, said: str) -> None:
    assert said in sandbox.run("-np", 2, "--wrap", value, "true").expect(code).err_text


def test_arguments_reach_the_program_unchanged(sandbox: Sandbox) -> None:
    arguments = ("", " two words ", "-np", "--", "$HOME", "'\"\\", "line\nbreak", "--help")
    dump(sandbox, "-np", 1, arguments=arguments)
    words = (sandbox.files / "0.args").read_bytes().split(b"\0")[:-1]
    assert [word.decode() for word in words[2:]] == list(arguments)


def test_ranks_run_in_the_callers_working_directory(sandbox: Sandbox) -> None:
    folder = sandbox.files / "a folder"
    folder.mkdir()
    dump(sandbox, "-np", 1, cwd=folder)
    assert (sandbox.files / "0.cwd").read_text() == str(folder)


def test_ranks_inherit_no_descriptors_of_the_caller(sandbox: Sandbox) -> None:
    extra = os.open("/dev/null", os.O_RDONLY)
    try:
        dump(sandbox, "-np", 2, pass_fds=[extra])
    finally:
        os.close(extra)
    for rank in range(2):
        notice = environment(sandbox, rank)["HVD_NOTICE_FD"]
        assert set((sandbox.files / f"{rank}.fds").read_text().split()) <= {"0", "1", "2", notice}


def test_a_program_without_a_slash_is_searched_in_path(sandbox: Sandbox) -> None:
    tool = sandbox.files / "bin/my tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho found it\n")
    tool.chmod(0o755)
    done = sandbox.run("-np", 1, "my tool", env={"PATH": f"/nonexistent:{tool.parent}:/bin"}).expect(0)
    assert done.out == b"found it\n"


def test_a_program_with_a_slash_is_relative_to_the_working_directory(sandbox: Sandbox) -> None:
    script = sandbox.files / "script.sh"
    script.write_text("#!/bin/sh\necho here\n")
    script.chmod(0o755)
    assert sandbox.run("-np", 1, "./script.sh").expect(0).out == b"here\n"


@pytest.mark.parametrize("words", [["--"], ["run"]])
def test_double_dash_and_run_start_a_program_with_a_subcommands_name(sandbox: Sandbox, words: list[str]) -> None:
    script = sandbox.files / "jobs"  # also the name of a subcommand
    script.write_text("#!/bin/sh\necho the program\n")
    script.chmod(0o755)
    before, after = ([], words) if words == ["--"] else (words, [])
    done = sandbox.run(*before, "-np", 1, *after, "jobs", tool=hvdrun_without_report(sandbox), env={"PATH": f"{sandbox.files}:/bin"})
    assert done.expect(0).out == b"the program\n"


def hvdrun_without_report(sandbox: Sandbox) -> Path:
    """Returns another path of hvdrun, for which the harness adds no option."""
    from harness import HVDRUN
    link = sandbox.files / "hvdrun"
    link.symlink_to(HVDRUN)
    return link


def test_a_missing_program_gives_127_and_one_line(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "no-such-program").expect(127)
    assert done.err_text.count("\n") == 1 and "no-such-program" in done.err_text


@pytest.mark.parametrize("kind", ["directory", "plain file"])
def test_a_program_that_is_not_executable_gives_126_and_one_line(sandbox: Sandbox, kind: str) -> None:
    path = sandbox.files / "thing"
    path.mkdir() if kind == "directory" else path.write_text("data")
    done = sandbox.run("-np", 2, path).expect(126)
    assert done.err_text.count("\n") == 1 and str(path) in done.err_text


def test_the_error_for_a_script_without_its_interpreter_says_so(sandbox: Sandbox) -> None:
    script = sandbox.files / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = sandbox.run("-np", 2, script)
    assert done.code in (126, 127) and not done.survivors
    assert str(script) in done.err_text and "interpreter" in done.err_text


@pytest.mark.slow
@pytest.mark.measures
def test_128_ranks_run_on_one_host(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 128, "sh", "-c", "echo $HVD_RANK").expect(0)
    assert sorted(int(line.split()[-1]) for line in done.out_lines) == list(range(128))


def test_output_of_python_ranks_is_not_buffered(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 1, PYTHON, "-c", "import time; print('now'); time.sleep(1000)")
    running.wait_for(b"now\n")
    running.signal(15)
    running.wait().expect(143)


def test_a_rank_can_start_a_job_with_hvdrun(sandbox: Sandbox) -> None:
    from harness import HVDRUN
    done = sandbox.run("-np", 1, HVDRUN, "-np", 2, "sh", "-c", "echo inner $HVD_RANK $HVD_SIZE").expect(0)
    assert sorted(line.split("inner ")[1] for line in done.out_lines) == ["0 2", "1 2"]


def test_hvd_hostname_is_the_name_of_the_machine(sandbox: Sandbox) -> None:
    dump(sandbox, "-np", 1)
    assert environment(sandbox, 0)["HVD_HOSTNAME"] in (HOSTNAME, HOSTNAME.split(".")[0], "localhost")


def test_more_ranks_than_one_start_group_all_start(sandbox: Sandbox) -> None:
    """A group has 32 ranks. They share /dev/null as stdin; each has its own output streams and environment."""
    script = 'cat; echo "$HVD_RANK in"; echo "$HVD_RANK err" >&2'
    done = sandbox.run("-np", 70, "--oversubscribe", "--pmix", "off", "sh", "-c", script).expect(0)
    for rank in range(70):
        assert re.search(rf"^\[{rank}\] +{rank} in$", done.out_text, re.MULTILINE), done
        assert re.search(rf"^\[{rank}\] +{rank} err$", done.err_text, re.MULTILINE), done
