"""ParameterServer(per_host=True) of hvd.torch and hvd.keras has a server on each host; the servers average their weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from rank_cases import PYTHONS
from several_hosts import run_on_hosts


@pytest.mark.parametrize("hosts", ["ab", pytest.param("aba", marks=pytest.mark.slow), pytest.param("abab", marks=pytest.mark.slow)])
def test_servers_of_torch_on_each_host_average_their_parameters(hosts: str, tmp_path: Path) -> None:
    run_on_hosts(hosts, tmp_path, PYTHONS["torch"], "parameter_servers.py",
                 ("staleness_0_gives_the_synchronous_result", "servers_average_after_each_period_and_at_the_end",
                  "a_host_without_more_data_does_not_block_the_others", "a_loaded_state_continues", "errors"))


@pytest.mark.tensorflow
@pytest.mark.parametrize("hosts", ["ab", pytest.param("aba", marks=pytest.mark.slow)])
def test_servers_of_keras_on_each_host_average_their_weights(hosts: str, tmp_path: Path) -> None:
    run_on_hosts(hosts, tmp_path, PYTHONS["tensorflow"], "tensorflow_parameter_servers.py",
                 ("staleness_0_gives_the_synchronous_result", "servers_average_after_each_period_and_at_the_end",
                  "states"))
