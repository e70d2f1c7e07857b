"""Starts with all ranks of the job and with some of them, under hvdrun."""

from __future__ import annotations

import re

import pytest

from harness import Sandbox, program

REGROUP = program("regroup")


@pytest.mark.core
@pytest.mark.parametrize("pmix", ["on", "off"])
def test_all_ranks_and_some_of_them_start_in_turn(sandbox: Sandbox, pmix: str) -> None:
    done = sandbox.run("-np", 4, "--pmix", pmix, "--label", "none", REGROUP, "--rounds", 25).expect(0)
    assert done.out_lines == ["fine"] * 4


@pytest.mark.parametrize("pmix", ["on", "off"])
def test_ranks_whose_lists_differ_are_told_so_in_time(sandbox: Sandbox, pmix: str) -> None:
    done = sandbox.run("-np", 4, "--pmix", pmix, "--grace", "5", REGROUP, "--differ", env={"HVD_START_TIMEOUT": "1"})
    assert done.code == 1 and not done.survivors, done
    if pmix == "on":
        assert re.search(r"waiting for ranks 0-[12] to start, all with this list of ranks", done.err_text), done
    else:  # which of these it is depends on who comes first
        said = r"did not come to rank|did not find rank|starts with other ranks"
        assert re.search(said, done.err_text), done


@pytest.mark.parametrize("pmix", ["on", "off"])
def test_a_rank_that_does_not_come_is_named(sandbox: Sandbox, pmix: str) -> None:
    done = sandbox.run("-np", 3, "--pmix", pmix, "--grace", "0.3", "sh", "-c",
                       f'[ $HVD_RANK = 1 ] && exec sleep 1000; exec "{program("../examples/hello")}"',
                       env={"HVD_START_TIMEOUT": "1"})
    assert done.code != 0 and re.search("rank 1 did not come .*within 1 s .HVD_START_TIMEOUT", done.err_text), done


def test_a_wait_is_told_with_the_rank_of_the_job(sandbox: Sandbox) -> None:
    go = sandbox.files / "go"
    running = sandbox.start("-np", 4, "--stall-check-warning-time-seconds", "0.2", REGROUP, "--until", go)
    running.wait_for(b"s for rank 3 on", "err")
    go.touch()
    running.wait().expect(0)
