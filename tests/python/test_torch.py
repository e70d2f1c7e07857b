"""Tests of hvd.torch that need a job of their own: before hvd.init(), in forked processes, after a rank's death."""

from __future__ import annotations

from pathlib import Path

from harness import PYTHON, Done, Sandbox, python_environment

PROGRAMS = Path(__file__).resolve().parent / "programs"


def run(sandbox: Sandbox, ranks: int, program: str, *arguments: str, options: tuple[str, ...] = ()) -> Done:
    return sandbox.run("-np", ranks, "--bind-to", "none", "-H", f"localhost:{ranks}", *options, PYTHON,
                       PROGRAMS / program, *arguments, env=python_environment())


def test_every_call_before_init_raises_an_error_that_names_init(sandbox: Sandbox) -> None:
    assert run(sandbox, 1, "torch_before_init.py").expect(0).out_lines == []


def test_forked_data_loader_workers_work_while_ranks_train(sandbox: Sandbox) -> None:
    lines = run(sandbox, 2, "torch_loader.py").expect(0).out_lines
    assert sorted(lines) == ["[0] sum: 992.0"] * 2 + ["[1] sum: 992.0"] * 2


def test_a_collective_in_a_forked_worker_is_an_error_on_all_ranks(sandbox: Sandbox) -> None:
    done = run(sandbox, 2, "torch_loader.py", "call")
    assert sorted(done.out_lines) == [f"[{rank}] {who}: True" for rank in (0, 1) for who in ("rank", "worker")], done


def test_waiting_ranks_get_an_error_that_names_a_dead_rank(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "torch_death.py", options=("--grace", "60"))
    assert done.code == 137 and not done.survivors, done
    assert sorted(done.out_lines) == ["[0] error names rank 1: True"] * 3 + ["[2] error names rank 1: True"] * 3, done


def test_a_dead_rank_ends_the_parameter_server_with_an_error_on_all(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "server_death.py", options=("--grace", "60"))
    assert done.code == 137 and not done.survivors, done
    assert sorted(done.out_lines) == ["[0] step 2 PeerError", "[2] step 2 PeerError"], done
