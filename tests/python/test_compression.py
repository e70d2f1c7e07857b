"""hvd.Compression.wire_... compresses allreduces between hosts. A host is a separate folder for shared memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from rank_cases import PYTHONS
from several_hosts import run_on_hosts


@pytest.mark.parametrize("hosts", ["ab", pytest.param("aab", marks=pytest.mark.slow)])
def test_allreduces_of_torch_are_compressed_between_hosts(hosts: str, tmp_path: Path) -> None:
    run_on_hosts(hosts, tmp_path, PYTHONS["torch"], "compression.py",
                 ("allreduce", "gradient", "error_feedback", "errors", "training"))


@pytest.mark.tensorflow
@pytest.mark.parametrize("hosts", ["ab", pytest.param("aab", marks=pytest.mark.slow)])
def test_allreduces_of_tensorflow_are_compressed_between_hosts(hosts: str, tmp_path: Path) -> None:
    run_on_hosts(hosts, tmp_path, PYTHONS["tensorflow"], "tensorflow_compression.py",
                 ("allreduce", "gradient", "errors", "training"))
