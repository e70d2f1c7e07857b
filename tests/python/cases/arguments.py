"""Wrong arguments and unknown names: hvd's exceptions name the function, the argument, what was given and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy
import torch

import hvd.data
import hvd.numpy
import hvd.torch as h
from _expect import raises

FRAMEWORK = "torch"
SIZES = (2,)
GATE_SIZE = 2

MODULES = {"h": h, "hvd": hvd, "numpy": numpy, "torch": torch}

# A call, its exception, and the text of that on each rank.
WRONG = [
    ("h.allreduce(torch.ones(2), op='sum')", TypeError,
     "hvd.torch.allreduce: op is 'sum', not one of hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product or None; "
     "write hvd.Sum"),
    ("h.allreduce(torch.ones(2), prescale_factor='2')", TypeError, "hvd.torch.allreduce: prescale_factor is '2', not a number"),
    ("h.broadcast(torch.ones(2), root_rank='0')", TypeError, "hvd.torch.broadcast: root_rank is '0', not a whole number"),
    ("h.allreduce(torch.ones(2), process_set=[0])", TypeError, "hvd.torch.allreduce: process_set is [0], not an hvd.ProcessSet"),
    ("h.DistributedOptimizer(torch.nn.Linear(2, 2))", TypeError,
     "hvd.torch.DistributedOptimizer: optimizer is an object of the class torch.nn.modules.linear.Linear, not a "
     "torch.optim.Optimizer"),
    ("hvd.set_metric('loss', 'low')", TypeError, "hvd.set_metric: value is 'low', not a number"),
    ("hvd.set_metric(5, 1.0)", TypeError, "hvd.set_metric: name is 5, not a text"),
    ("hvd.warmup(0.1, 1.0, 'a', 5)", TypeError, "hvd.warmup: step is 'a', not a whole number"),
    ("hvd.run(print, np=0)", ValueError, "hvd.run: np is 0, not a number of ranks, 1 or more"),
    ("hvd.run(print, np='2')", TypeError, "hvd.run: np is '2', not a number of ranks, 1 or more"),
    ("hvd.run(print, np=True)", TypeError, "hvd.run: np is True, not a number of ranks, 1 or more"),
    ("hvd.elastic.run(5)", TypeError, "hvd.elastic.run: func is 5, not a function"),
    ("hvd.elastic.run_fn(5, print)", TypeError, "hvd.elastic.run_fn: func is 5, not a function"),
    ("hvd.data.Source.folder(5)", TypeError, "hvd.data.Source.folder: path is 5, not a text or a path"),
]

# A name, and words of the exception.
UNKNOWN: list[tuple[Any, str, str]] = [
    (hvd, "allreduce", "hvd.torch, hvd.tensorflow, hvd.keras and hvd.numpy; for PyTorch: import hvd.torch as hvd"),
    (hvd, "DistributedOptimizer", "it is in hvd.torch, hvd.tensorflow and hvd.keras"),
    (hvd, "print1", "did you mean print0?"),
    (h, "DistributedGradientTape", "it is in hvd.tensorflow: import hvd.tensorflow as hvd"),
    (h, "alreduce", "did you mean allreduce?"),
    (hvd.numpy, "sparse_allreduce_async", "it is in hvd.torch"),
]


def case_the_exception_says_what_to_write() -> None:
    for call, kind, text in WRONG:
        with raises(kind):
            try:
                eval(call, dict(MODULES))
            except kind as error:
                assert str(error) == text, f"{call}: {error}"
                raise


def case_errors_of_the_library_name_what_python_has() -> None:
    sources = "".join(path.read_text() for path in Path(hvd.__file__).parent.rglob("*.py"))
    called = {name for name in re.findall(r"(?:check|number)\((?:_?lib\.)?(hvd_\w+)", sources) if name != "hvd_alloc"}
    assert len(called) > 60
    for name in sorted(called):
        text = str(hvd.errors.of_status(1, f"{name}: 1"))
        thing: Any = hvd
        for part in text.removeprefix("hvd.").removesuffix("(): 1").split("."):
            thing = getattr(thing if hasattr(thing, part) or thing is not hvd else h, part)


def case_the_other_ranks_learn_what_was_wrong() -> None:
    kind, words = (TypeError, "hvd.torch.allreduce: ") if hvd.rank() == 1 else (ValueError, "rank 1: ")
    with raises(kind, words, "op is 'sum', not one of hvd.Average"):
        h.allreduce(torch.ones(2), op="sum" if hvd.rank() == 1 else h.Sum)


def case_an_unknown_name_says_where_it_is() -> None:
    for module, name, words in UNKNOWN:
        with raises(AttributeError, f"module '{module.__name__}' has no attribute '{name}'", words):
            getattr(module, name)


def case_names_are_found_where_one_looks_for_them() -> None:
    assert h.local_batch(6) == 3 and h.data is hvd.data and h.print0
    assert hvd.numpy.agree_stop(1).text == "" and hvd.numpy.rank() == hvd.rank()
    assert "numpy" in dir(hvd) and "torch" in dir(hvd)
