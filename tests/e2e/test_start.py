"""hvd_init with all ranks of a job and with some of them."""

from __future__ import annotations

import re

import pytest

from harness import Sandbox, program

REGROUP = program("regroup")


@pytest.mark.core
@pytest.mark.parametrize("pmix", ["on", "off"])
def test_hvd_init_works_with_all_and_some_ranks_in_turn(sandbox: Sandbox, pmix: str) -> None:
    done = sandbox.run("-np", 4, "--pmix", pmix, "--label", "none", REGROUP, "--rounds", 25).expect(0)
    assert done.out_lines == ["fine"] * 4


@pytest.mark.parametrize("pmix", ["on", "off"])
def test_hvd_init_fails_in_time_if_ranks_give_different_lists(sandbox: Sandbox, pmix: str) -> None:
    done = sandbox.run("-np", 4, "--pmix", pmix, "--grace", "5", REGROUP, "--differ", env={"HVD_START_TIMEOUT": "1"})
    assert done.code == 1 and not done.survivors, done
    # Without PMIx, and with libpmix 5, the message depends on the order in which ranks start.
    said = r"waiting for ranks 0-[12] to start, all with this list of ranks|did not come to rank|did not find rank|starts with other ranks"
    assert re.search(said, done.err_text), done


@pytest.mark.parametrize("pmix", ["on", "off"])
def test_the_error_of_hvd_init_names_a_missing_rank(sandbox: Sandbox, pmix: str) -> None:
    done = sandbox.run("-np", 3, "--pmix", pmix, "--grace", "0.3", "sh", "-c",
                       f'[ $HVD_RANK = 1 ] && exec sleep 1000; exec "{program("../examples/hello")}"',
                       env={"HVD_START_TIMEOUT": "1"})
    assert done.code != 0 and re.search("rank 1 did not come .*within 1 s .HVD_START_TIMEOUT", done.err_text), done


def test_a_stall_among_some_ranks_is_reported_with_ranks_of_the_job(sandbox: Sandbox) -> None:
    go = sandbox.files / "go"
    running = sandbox.start("-np", 4, "--stall-check-warning-time-seconds", "0.2", REGROUP, "--until", go)
    running.wait_for(b"s for rank 3 on", "err")
    go.touch()
    running.wait().expect(0)
