"""The names of horovod.common.util, horovod.common.basics and horovod.common.exceptions."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sysconfig
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NoReturn, Optional

import hvd
from hvd import capabilities, elastic, job, process_sets, timeline, types
from hvd._retired import op_of
from hvd.elastic import HostsUpdatedInterrupt
from hvd.errors import Error as HorovodInternalError
from hvd.types import Average, Sum

__all__ = ["EXTENSIONS", "HorovodBasics", "HorovodInternalError", "HorovodVersionMismatchError", "HostsUpdatedInterrupt", "ccl_built",
           "check_extension", "check_installed_version", "ddl_built", "env", "extension_available",
           "get_average_backwards_compatibility_fun", "get_ext_suffix", "get_extension_full_path",
           "get_version_mismatch_message", "gloo_built", "gpu_available", "is_iterable",
           "is_version_greater_equal_than", "mpi_built", "nccl_built", "num_rank_is_power_2", "split_list"]


# ---- horovod.common.exceptions --------------------------------------------------------------------

class HorovodVersionMismatchError(ImportError):
    """Raised by Horovod if a framework has another version than at Horovod's build.

    hvd never raises it, because it is not compiled against a framework.
    """

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name, self.version, self.installed_version = name, version, installed_version


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """Returns the text of a HorovodVersionMismatchError."""
    return f"{name} {installed_version} is installed; {version} was there at the build"


# ---- horovod.common.elastic -----------------------------------------------------------------------

class _NotificationManager:
    """Has the functions of Horovod's, which do nothing here: libhvd itself hears of changes of the job."""

    def init(self) -> None:
        pass

    def register_listener(self, listener: elastic.State) -> None:
        pass

    def remove_listener(self, listener: elastic.State) -> None:
        pass


notification_manager = _NotificationManager()


# ---- horovod.common.util --------------------------------------------------------------------------

_cache = functools.lru_cache(maxsize=None)  # of functions whose arguments can be keys


EXTENSIONS = ["tensorflow", "torch"]


def _with_verbose(function: Callable[[], bool]) -> Callable[..., bool]:
    """Returns the function with Horovod's argument `verbose`, which is ignored."""
    def built(verbose: bool = False) -> bool:
        return function()
    return built


mpi_built = _with_verbose(capabilities.mpi_built)
gloo_built = _with_verbose(capabilities.gloo_built)
nccl_built = _with_verbose(capabilities.nccl_built)
ddl_built = _with_verbose(capabilities.ddl_built)
ccl_built = _with_verbose(capabilities.ccl_built)


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Returns whether "torch" or "tensorflow" is installed. hvd is compiled against neither, so either can be used."""
    return ext_base_name in EXTENSIONS and importlib.util.find_spec(ext_base_name) is not None


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: Any) -> None:
    """Raises ImportError if the framework of "horovod.torch" or "horovod.tensorflow" is not installed.

    The other arguments describe Horovod's build, and are ignored.
    """
    framework = ext_name.rpartition(".")[2]
    if not extension_available(framework):
        raise ImportError(f"{ext_name}: {framework} is not installed, or hvd is not for it", name=ext_name)


def check_installed_version(name: str, version: str, exception: Optional[BaseException] = None) -> None:
    """Does nothing: hvd works with another version of a framework than at its installation."""


def get_ext_suffix() -> str:
    """Returns the suffix of Python's extension modules."""
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def get_extension_full_path(pkg_path: str, *args: Any) -> NoReturn:
    """Raises ImportError: hvd has no compiled library of Horovod's."""
    raise ImportError("horovod.common.util.get_extension_full_path: hvd has no compiled library of Horovod's; "
                      "libhvd has a C interface of its own (hvd/hvd.h)")


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Returns whether "torch" or "tensorflow" finds a GPU on this machine."""
    if not extension_available(ext_base_name):
        return False
    if ext_base_name == "torch":
        import torch
        return torch.cuda.is_available()
    import tensorflow
    return bool(tensorflow.config.list_physical_devices("GPU"))


@contextlib.contextmanager
def env(**kwargs: Optional[str]) -> Iterator[None]:
    """Sets environment variables inside the block. Ignores those with the value None."""
    changes = {name: value for name, value in kwargs.items() if value is not None}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[Any, Optional[bool]], Any]:
    """Returns a function that returns the operation for the arguments `op` and `average`, which is deprecated.

    reduce_ops: an object with the attributes Average and Sum.
    """
    def reduction(op: Any, average: Optional[bool]) -> Any:
        reduced = op_of(op, average)
        return {Average: reduce_ops.Average, Sum: reduce_ops.Sum}[reduced] if op is None else op
    return reduction


def is_iterable(x: Any) -> bool:
    """Returns whether iter(x) works."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Returns whether version `ver` ("2.15.0rc1") is at least `target` ("2.4.0"). Compares three numbers only."""
    def numbers(version: str) -> list[int]:
        found = [int(number) for number in re.findall(r"\d+", version)[:3]]
        return found + [0] * (3 - len(found))
    return numbers(ver) >= numbers(target)


def num_rank_is_power_2(num_rank: int) -> bool:
    """Returns whether the number is 1, 2, 4, 8, ..."""
    return num_rank > 0 and bin(num_rank).count("1") == 1


def split_list(l: Sequence[Any], n: int) -> list[Sequence[Any]]:
    """Splits the list into n parts in order. If they cannot be equal, the first ones are longer by one."""
    ends = [len(l) // n * part + min(part, len(l) % n) for part in range(n + 1)]
    return [l[begin:end] for begin, end in zip(ends, ends[1:])]


# ---- horovod.common.basics, and its names in the modules mpi_ops ------------------------------------

class HorovodBasics:
    """The functions without tensors, such as init(), rank(), size() and the *_built(), as methods.

    The arguments, which in Horovod are the path of its compiled library, are ignored.
    """

    def __init__(self, pkg_path: str = "", *args: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name == "_get_process_set_ids_and_ranks":
            return hvd.get_process_set_ids_and_ranks
        for module in (job, capabilities, timeline, process_sets, types):
            if not name.startswith("_") and hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"HorovodBasics.{name}: hvd has nothing of that name")


_basics = HorovodBasics()
handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(types)


def check_num_rank_power_of_2(num_rank: int) -> None:
    """Raises ValueError unless the number is 1, 2, 4, 8, ..."""
    if not num_rank_is_power_2(num_rank):
        raise ValueError(f"{num_rank} ranks: the number must be a power of 2")
