"""The table of Horovod's modules: for each, the modules of hvd with its names, or the reason why it does not exist.

`Finder`, an entry of sys.meta_path, makes a module when it is imported. Names are looked up on first use, because some
take long to import.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional

_LAUNCHER = "hvdrun -np N starts a program on hosts and in SLURM, and horovod.run() a function"
_KERAS = "horovod.keras and horovod.tensorflow.keras have its functions and callbacks"
_AGGREGATION = "DistributedOptimizer(backward_passes_per_step=N) adds up the gradients of N steps"
_FUNCTIONS = "the functions without Horovod in their names can be differentiated"
_COMPILED = "nothing is compiled against a framework; horovod.torch and horovod.tensorflow have the functions"

# By the name after "horovod.": the modules in which an attribute is looked up, in this order.
MODULES = {
    "common": ("hvd.job",),  # empty in Horovod since 0.13; programs import init() and rank() from it
    "common.basics": ("horovod._common",),
    "common.elastic": ("hvd.elastic", "horovod._common"),
    "common.exceptions": ("horovod._common",),
    "common.process_sets": ("hvd.process_sets",),
    "common.util": ("horovod._common",),
    "keras": ("hvd.keras",),
    "keras.callbacks": ("hvd.keras.callbacks",),
    "keras.elastic": ("hvd.keras.elastic",),
    "runner": ("horovod._runner",),
    "runner.elastic": ("hvd.elastic",),
    "runner.elastic.worker": ("hvd.elastic",),
    "tensorflow": ("hvd.tensorflow", "horovod._tensorflow", "horovod._common"),
    "tensorflow.compression": ("hvd.tensorflow.compression",),
    "tensorflow.elastic": ("hvd.tensorflow.elastic", "horovod._common"),
    "tensorflow.functions": ("hvd.tensorflow",),
    "tensorflow.keras": ("hvd.tensorflow.keras", "horovod._common"),
    "tensorflow.keras.callbacks": ("hvd.tensorflow.keras.callbacks", "horovod._common"),
    "tensorflow.keras.elastic": ("hvd.tensorflow.keras.elastic", "horovod._common"),
    "tensorflow.mpi_ops": ("hvd.tensorflow", "horovod._tensorflow", "horovod._common"),
    "tensorflow.sync_batch_norm": ("hvd.tensorflow",),
    "tensorflow.util": ("horovod._tensorflow",),
    "torch": ("hvd.torch", "horovod._common"),
    "torch.compression": ("hvd.torch.compression",),
    "torch.elastic": ("hvd.torch.elastic", "horovod._common"),
    "torch.elastic.sampler": ("hvd.torch.elastic.sampler",),
    "torch.elastic.state": ("hvd.torch.elastic.state", "hvd.torch.elastic"),
    "torch.functions": ("hvd.torch",),
    "torch.mpi_ops": ("hvd.torch", "horovod._common"),
    "torch.optimizer": ("hvd.torch", "hvd.torch.optimizer", "horovod._common"),
    "torch.sync_batch_norm": ("hvd.torch",),
}

# Modules that do not exist, with all their submodules, names in modules, and the replacement.
REFUSED = {
    "_keras": _KERAS,
    "data": "the loaders of PyTorch and TensorFlow take its place",
    "mxnet": "MXNet is retired, and hvd is for PyTorch, TensorFlow and Keras",
    "ray": _LAUNCHER,
    "run": _LAUNCHER,  # a package of Horovod's before 0.21
    "runner.common": _LAUNCHER,
    "runner.driver": _LAUNCHER,
    "runner.gloo_run": _LAUNCHER,
    "runner.http": _LAUNCHER,
    "runner.js_run": _LAUNCHER,
    "runner.launch": _LAUNCHER,
    "runner.mpi_run": _LAUNCHER,
    "runner.run_task": _LAUNCHER,
    "runner.task": _LAUNCHER,
    "runner.task_fn": _LAUNCHER,
    "runner.util": _LAUNCHER,
    "spark": _LAUNCHER,
    "tensorflow.data": "tf.data.experimental.service has what is needed",
    "tensorflow.gradient_aggregation": _AGGREGATION,
    "tensorflow.gradient_aggregation_eager": _AGGREGATION,
    "tensorflow.mpi_lib": _COMPILED,
    "tensorflow.LocalGradientAggregationHelper": _AGGREGATION,
    "tensorflow.mpi_ops.MPI_LIB": _COMPILED,
    "torch.mpi_lib": _COMPILED,
    "torch.mpi_lib_v2": _COMPILED,
    "torch.mpi_ops.mpi_lib": _COMPILED,
    **{f"torch.mpi_ops.Horovod{name}": _FUNCTIONS for name in (
        "Allgather", "Allreduce", "Alltoall", "Broadcast", "GroupedAllgather", "GroupedAllreduce",
        "GroupedReducescatter", "Reducescatter")},
}


def _attribute_of(module: str, sources: Sequence[str], name: str) -> Any:
    """Returns the attribute: a submodule of the table, otherwise that of the first of `sources` that has it.

    Errors: AttributeError, with the name, if hvd does not have it.
    """
    if name.startswith("__"):  # attributes that Python itself looks up in modules
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    below = f"{module}.{name}".partition(".")[2]
    if below in MODULES:
        return importlib.import_module(f"horovod.{below}")
    reason = ""
    for source in sources:
        try:
            return getattr(importlib.import_module(source), name)
        except AttributeError as error:
            reason = reason or f" ({error})"
    if below in REFUSED:
        raise AttributeError(f"{module}.{name}: hvd does not have it; {REFUSED[below]}{reason}")
    if f"{module}.keras.{name}" in {f"horovod.{known}" for known in MODULES}:
        raise AttributeError(f"{module} has no {name}: it is in {module}.keras, which has the other functions, too: "
                             f"import {module}.keras as hvd")
    raise AttributeError(f"{module}.{name}: hvd has nothing of that name{reason}")


class _Made(Loader):
    """Fills a module of the table."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = sources

    def create_module(self, spec: ModuleSpec) -> None:
        return None  # Python makes it

    def exec_module(self, module: ModuleType) -> None:
        own = module.__name__
        first = importlib.import_module(self._sources[0])  # reports a missing framework
        module.__doc__ = f"{' and '.join(self._sources)}, under Horovod's name."
        if hasattr(first, "__all__"):
            module.__all__ = first.__all__  # type: ignore[attr-defined]
        module.__getattr__ = lambda name: _attribute_of(own, self._sources, name)  # type: ignore[assignment]


class _Refused(Loader):
    """Raises ImportError, with the replacement, for a module that does not exist."""

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def create_module(self, spec: ModuleSpec) -> None:
        raise ImportError(f"{spec.name}: hvd does not have it; {self._instead}", name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        raise AssertionError("create_module has raised")


class Finder(MetaPathFinder):
    """Finds the modules of the table, before files that another Horovod may have left in the folder."""

    def find_spec(self, fullname: str, path: Optional[Sequence[str]],
                  target: Optional[ModuleType] = None) -> Optional[ModuleSpec]:
        package, _, name = fullname.partition(".")
        if package != "horovod":
            return None
        if name in MODULES:
            is_package = any(known.startswith(f"{name}.") for known in (*MODULES, *REFUSED))
            return ModuleSpec(fullname, _Made(MODULES[name]), is_package=is_package)
        if name in REFUSED:
            return ModuleSpec(fullname, _Refused(REFUSED[name]))
        return None
