"""hvd.torch where a job is needed of its own: before hvd.init(), in forked processes, when a rank dies."""

from __future__ import annotations

from pathlib import Path

from harness import PYTHON, Done, Sandbox, python_environment

PROGRAMS = Path(__file__).resolve().parent / "programs"


def run(sandbox: Sandbox, ranks: int, program: str, *arguments: str, options: tuple[str, ...] = ()) -> Done:
    return sandbox.run("-np", ranks, "--bind-to", "none", "-H", f"localhost:{ranks}", *options, PYTHON,
                       PROGRAMS / program, *arguments, env=python_environment())


def test_before_init_every_call_names_it(sandbox: Sandbox) -> None:
    assert run(sandbox, 1, "torch_before_init.py").expect(0).out_lines == []


def test_workers_of_a_data_loader_load_while_ranks_train(sandbox: Sandbox) -> None:
    lines = run(sandbox, 2, "torch_loader.py").expect(0).out_lines
    assert sorted(lines) == ["[0] sum: 992.0"] * 2 + ["[1] sum: 992.0"] * 2


def test_a_collective_in_a_worker_is_an_error_there_and_on_all_ranks(sandbox: Sandbox) -> None:
    done = run(sandbox, 2, "torch_loader.py", "call")
    assert sorted(done.out_lines) == [f"[{rank}] {who}: True" for rank in (0, 1) for who in ("rank", "worker")], done


def test_a_rank_that_dies_is_told_to_those_that_wait(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "torch_death.py", options=("--grace", "60"))
    assert done.code == 137 and not done.survivors, done
    assert sorted(done.out_lines) == ["[0] told: True"] * 3 + ["[2] told: True"] * 3, done


def test_a_rank_that_dies_ends_the_parameter_server_with_an_error_on_all(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "server_death.py", options=("--grace", "60"))
    assert done.code == 137 and not done.survivors, done
    assert sorted(done.out_lines) == ["[0] step 2 PeerError", "[2] step 2 PeerError"], done
