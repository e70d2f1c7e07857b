"""Reduces the gradients of an optimizer's parameters over the ranks, in the background while backward() continues.

Runs on the threads of backward(), which call the hooks of the parameters, and on the thread that calls step(). An error
of a reduction is raised by synchronize(), after all reductions have ended.

If all ranks are on one host, a gradient that backward() has made moves into memory that the ranks share
(shared_gradients). A gradient that was there before, such as a view of the program's own buffer, stays where it is.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional, Union

import torch

from .._collectives import of_gradients, sharing_failure
from ..job import local_size, size
from ..process_sets import ProcessSet, global_process_set
from ..types import Adasum, ReduceOp
from ._wrapping import NamedParameters, ParamGroups
from .background import allreduce_async_, grouped_allreduce_async_, sparse_allreduce_async
from .compression import Compression, Compressor
from .shared_gradients import GradientMemory, shared_gradients

Groups = Union[int, Sequence[Sequence[torch.Tensor]], None]


class Parameter:
    """A parameter that needs gradients."""

    __slots__ = ("tensor", "name", "passes_left", "reduction", "sparse_dimensions", "memory")

    def __init__(self, tensor: torch.Tensor, name: str, passes: int) -> None:
        self.tensor = tensor
        self.name = name
        self.passes_left = passes
        self.reduction: Reduction
        self.sparse_dimensions: Optional[int] = None  # of the last gradient, if it was sparse
        self.memory: Optional[GradientMemory] = None  # where the ranks of the host share the gradient


class Reduction:
    """Gradients that are reduced together, of one parameter or of a group of one type, and their state in one step."""

    __slots__ = ("parameters", "name", "missing", "handle", "gradients", "contexts", "versions")

    def __init__(self, parameters: list[Parameter]) -> None:
        self.parameters = parameters
        self.name = _name_of_group([parameter.name for parameter in parameters])
        for parameter in parameters:
            parameter.reduction = self
        self.reset()

    def reset(self) -> None:
        self.missing = len(self.parameters)  # parameters whose backward passes are not complete yet
        self.handle: Any = None
        self.gradients: list[torch.Tensor] = []
        self.contexts: list[Any] = []
        self.versions: list[Optional[int]] = []

    def begun(self, passes: int) -> bool:
        """Returns whether this rank has computed one of the gradients, or still may."""
        return any(parameter.tensor.requires_grad or parameter.passes_left < passes for parameter in self.parameters)


def _name_of_group(names: list[str]) -> str:
    """Returns a name that depends on the members and their order, so that ranks never add up different groups."""
    if len(names) == 1:
        return names[0]
    return f"{names[0]} and {len(names) - 1} more ({zlib.crc32(repr(names).encode()):08x})"


class Reducer:
    """Reduces the gradients of an optimizer's parameters."""

    reduces_in_place = True  # whether a reduction's input and output are the gradient itself

    def __init__(self, param_groups: ParamGroups, named_parameters: Optional[NamedParameters],
                 compression: type[Compressor], backward_passes_per_step: int, op: ReduceOp, predivide_factor: float,
                 groups: Groups, sparse_as_dense: bool, process_set: ProcessSet) -> None:
        self.backward_passes_per_step = checked_passes(backward_passes_per_step)
        self.pending = False  # whether backward() has computed a gradient since the last synchronize()
        self._compression = compression
        self._op = op
        self._prescale = 1.0 / predivide_factor
        self._postscale = predivide_factor
        self._sparse_as_dense = sparse_as_dense
        self._process_set = process_set
        self._named = None if named_parameters is None else list(named_parameters)  # kept alive: their id() are keys
        self._names = None if self._named is None else _names_by_id(self._named)
        self._known: dict[int, Parameter] = {}  # by id() of the tensor
        self._reductions: list[Reduction] = []
        self._may_share = self.reduces_in_place and compression is Compression.none and op != Adasum
        self._unshared: list[Parameter] = []  # for which shared memory was not allocated yet
        self._lock = threading.Lock()  # backward() has a thread for every device
        self._hooks: list[Any] = []
        weakref.finalize(self, _remove_hooks, self._hooks)
        self.check_names(param_groups)
        self.adopt(param_groups, groups)

    def check_names(self, param_groups: ParamGroups) -> None:
        """Raises ValueError if named_parameters was given and lacks a parameter."""
        if self._names is None:
            return
        missing = [tuple(tensor.shape) for group in param_groups for tensor in group["params"]
                   if id(tensor) not in self._names]
        if missing:
            raise ValueError(f"hvd: named_parameters does not have {len(missing)} of the optimizer's parameters, of "
                             f"the shapes {missing[:10]}")

    def adopt(self, param_groups: ParamGroups, groups: Groups = None) -> list[Reduction]:
        """Adds the parameters that need gradients and are not known yet. Returns their reductions."""
        found = []
        for group_index, group in enumerate(param_groups):
            for index, tensor in enumerate(group["params"]):
                if tensor.requires_grad and id(tensor) not in self._known:
                    name = (f"allreduce.noname.{group_index}.{index}" if self._names is None
                            else self._names[id(tensor)])
                    found.append(self._watched(tensor, name))
        added = [Reduction(members) for members in self._partition(found, groups)]
        self._reductions += added
        return added

    def _partition(self, parameters: list[Parameter], groups: Groups) -> Iterable[list[Parameter]]:
        """Returns the parameters that are reduced together."""
        return grouped(parameters, groups)

    def _watched(self, tensor: torch.Tensor, name: str) -> Parameter:
        parameter = Parameter(tensor, name, self.backward_passes_per_step)
        self._known[id(tensor)] = parameter
        self._hooks.append(_hook(tensor, functools.partial(_accumulated, weakref.ref(self), parameter)))
        if self._may_share:
            self._unshared.append(parameter)
        return parameter

    def set_backward_passes_per_step(self, passes: int) -> None:
        if self.in_flight():
            raise AssertionError("hvd: set_backward_passes_per_step() while gradients are being reduced; call it after "
                                 "step() or synchronize()")
        self.backward_passes_per_step = checked_passes(passes)
        self.reset()

    def in_flight(self) -> bool:
        return any(reduction.handle is not None for reduction in self._reductions)

    def takes_part(self) -> bool:
        """Returns whether there are other ranks to reduce with."""
        return size() > 1 and (self._process_set is global_process_set or self._process_set.included())

    def accumulated(self, parameter: Parameter) -> None:
        """Records that backward() has added to the gradient; starts the reduction after the last pass.

        Runs on the threads of backward().
        """
        if not self.takes_part():
            return
        if parameter.tensor.grad.requires_grad:
            raise AssertionError(f"hvd: the gradient of {parameter.name} is a part of a graph itself (backward() with "
                                 "create_graph=True), which cannot be reduced")
        if parameter.passes_left == 0:
            raise AssertionError(f"hvd: the gradient of {parameter.name} was computed more than "
                                 f"backward_passes_per_step={self.backward_passes_per_step} times before step()")
        self.pending = True
        if self._may_share and local_size() == size():
            self._share(parameter)
        parameter.passes_left -= 1
        if parameter.passes_left == 0:
            reduction = parameter.reduction
            with self._lock:
                reduction.missing -= 1
                complete = reduction.missing == 0
            if complete:
                self._start(reduction)

    def _share(self, parameter: Parameter) -> None:
        """Moves a gradient that backward() has made into memory that the ranks of the host share."""
        if len(parameter.reduction.parameters) > 1:
            return  # a group is packed, which copies
        with self._lock:
            if self._unshared:
                unshared, self._unshared = self._unshared, []
                for other, memory in zip(unshared, shared_gradients(one.tensor for one in unshared)):
                    other.memory = memory
        if parameter.memory is not None:
            parameter.memory.take_over(parameter.tensor)

    def _start(self, reduction: Reduction) -> None:
        with of_gradients():
            self._submit(reduction)

    def _submit(self, reduction: Reduction) -> None:
        gradients = [gradient_of(parameter) for parameter in reduction.parameters]
        handle: Any
        if len(gradients) == 1 and gradients[0].is_sparse and not self._sparse_as_dense:
            handle = sparse_allreduce_async(gradients[0], reduction.name, self._op, process_set=self._process_set)
        else:
            kind = "allreduce" if len(gradients) == 1 else "grouped_allreduce"
            with sharing_failure(kind, reduction.name, self._process_set):
                tensors, reduction.contexts = self._compressed(reduction, gradients)
            if len(tensors) == 1:
                handle = allreduce_async_(tensors[0], name=reduction.name, op=self._op, prescale_factor=self._prescale,
                                          postscale_factor=self._postscale, process_set=self._process_set,
                                          compression=self._compression)
            else:
                handle = grouped_allreduce_async_(tensors, name=reduction.name, op=self._op,
                                                  prescale_factor=self._prescale, postscale_factor=self._postscale,
                                                  process_set=self._process_set, compression=self._compression)
        reduction.gradients = gradients
        reduction.versions = [version_of(gradient) for gradient in gradients]
        reduction.handle = handle

    def _compressed(self, reduction: Reduction, gradients: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[Any]]:
        tensors, contexts = [], []
        for parameter, gradient in zip(reduction.parameters, gradients):
            if gradient.is_sparse:
                if not self._sparse_as_dense:
                    raise ValueError(f"hvd: the gradient of {parameter.name}, which is in a group, is sparse; use "
                                     "sparse_as_dense=True, or lists of parameters as groups, without it")
                gradient = gradient.to_dense()
            tensor, context = self._compression.compress(gradient)
            tensors.append(tensor)
            contexts.append(context)
        return tensors, contexts

    def synchronize(self) -> None:
        """Starts the reductions that backward() has not started, and waits for all."""
        if not self.takes_part():
            return
        failure: Optional[Exception] = None
        # All of them also after a failure: the other ranks wait for each, and its gradients are in use until its end.
        for reduction in self._reductions:
            try:
                if reduction.handle is None and reduction.begun(self.backward_passes_per_step):
                    self._start(reduction)
            except Exception as error:
                failure = failure or error
        for reduction in self._reductions:
            try:
                self._finish(reduction)
            except Exception as error:
                failure = failure or error
        self.reset()
        if failure is not None:
            raise failure

    def _finish(self, reduction: Reduction) -> None:
        if reduction.handle is None:
            return
        changed = [parameter.name for parameter, gradient, version
                   in zip(reduction.parameters, reduction.gradients, reduction.versions)
                   if version_of(gradient) != version]
        result = reduction.handle.wait()
        if changed:
            raise AssertionError(f"hvd: the gradient of {changed[0]} was changed while it was being reduced; call "
                                 "synchronize() first, then step() inside skip_synchronize()")
        if not reduction.contexts:  # a sparse gradient, which was gathered without compression
            reduction.parameters[0].tensor.grad = result
            return
        outputs = result if len(reduction.parameters) > 1 else [result]
        for parameter, gradient, output, context in zip(reduction.parameters, reduction.gradients, outputs,
                                                        reduction.contexts):
            self._put(parameter, gradient, self._compression.decompress(output, context))

    @staticmethod
    def _put(parameter: Parameter, gradient: torch.Tensor, reduced: torch.Tensor) -> None:
        """Sets the parameter's gradient to the reduced one; writes a dense gradient in place."""
        tensor = parameter.tensor
        if gradient.is_sparse:
            tensor.grad = reduced.to_sparse(gradient.sparse_dim())
            return
        if reduced is not gradient:
            gradient.copy_(reduced)
        if tensor.grad is not gradient and tensor.requires_grad:
            tensor.grad = gradient

    def abandon(self) -> None:
        """Waits for the reductions in flight, whatever comes of them, and drops the gradients."""
        for reduction in self._reductions:
            if reduction.handle is not None:
                with contextlib.suppress(Exception):
                    reduction.handle.wait()
        self.reset()

    def reset(self) -> None:
        """Drops the gradients computed since the last step."""
        self.pending = False
        for reduction in self._reductions:
            reduction.reset()
            for parameter in reduction.parameters:
                parameter.passes_left = self.backward_passes_per_step


def _accumulated(reducer: weakref.ref[Reducer], parameter: Parameter, *_: Any) -> None:
    """The hook of a parameter. Refers to the reducer weakly, so that hooks do not keep the optimizer alive."""
    alive = reducer()
    if alive is not None:
        alive.accumulated(parameter)


def version_of(gradient: torch.Tensor) -> Optional[int]:
    """Returns a number that grows with each change in place; None for a part of a tensor that may have other users."""
    base = gradient._base
    return None if base is not None and base.numel() > gradient.numel() else gradient._version


def _hook(tensor: torch.Tensor, accumulated: Callable[..., None]) -> tuple[Any, Any]:
    """Makes backward() call `accumulated` after each addition to tensor.grad.

    Returns a handle whose remove() ends that, and an object that must be kept alive until then.
    """
    if hasattr(tensor, "register_post_accumulate_grad_hook"):
        return tensor.register_post_accumulate_grad_hook(accumulated), None
    # Before torch 2.1: a hook of the graph's node that accumulates. The node is replaced unless a reference is kept.
    with torch.enable_grad():
        node = tensor.expand_as(tensor).grad_fn.next_functions[0][0]
    return node.register_hook(accumulated), node


def _remove_hooks(hooks: list[tuple[Any, Any]]) -> None:
    for handle, _ in hooks:
        handle.remove()


def gradient_of(parameter: Parameter) -> torch.Tensor:
    """Returns the parameter's gradient, or zeros if this rank has none."""
    tensor = parameter.tensor
    gradient = tensor.grad
    if gradient is not None:
        parameter.sparse_dimensions = gradient.sparse_dim() if gradient.is_sparse else None
        return gradient
    if parameter.sparse_dimensions is None:
        return torch.zeros_like(tensor, requires_grad=False)
    sparse = parameter.sparse_dimensions
    return torch.sparse_coo_tensor(torch.zeros((sparse, 0), dtype=torch.int64, device=tensor.device),
                                   torch.zeros((0, *tensor.shape[sparse:]), dtype=tensor.dtype, device=tensor.device),
                                   tensor.shape)


def grouped(parameters: list[Parameter], groups: Groups) -> Iterator[list[Parameter]]:
    """Yields the parameters that are reduced together: of one type and on one device, as one call requires."""
    if groups is None:
        lists = [[parameter] for parameter in parameters]
    elif isinstance(groups, int):
        length, longer = divmod(len(parameters), groups)
        ends = [length * (index + 1) + min(index + 1, longer) for index in range(groups)]
        lists = [parameters[begin:end] for begin, end in zip([0, *ends], ends)]
    else:
        by_id = {id(parameter.tensor): parameter for parameter in parameters}
        lists = [[by_id.pop(id(tensor)) for tensor in group if id(tensor) in by_id] for group in groups]
        lists += [[parameter] for parameter in by_id.values()]
    for members in lists:
        by_kind: dict[Any, list[Parameter]] = {}
        for parameter in members:
            by_kind.setdefault((parameter.tensor.dtype, parameter.tensor.device), []).append(parameter)
        yield from by_kind.values()


def _names_by_id(named: list[Any]) -> dict[int, str]:
    """Returns the names by id() of the tensor; the first name of a tensor that has several."""
    if any(not isinstance(entry, tuple) or len(entry) != 2 or not isinstance(entry[0], str) for entry in named):
        raise ValueError("hvd: named_parameters must be tuples (name, parameter), as those of "
                         "model.named_parameters() are")
    duplicates = sorted(name for name, count in Counter(name for name, _ in named).items() if count > 1)
    if duplicates:
        raise ValueError(f"hvd: the names in named_parameters must differ; there are several of "
                         f"{', '.join(duplicates)}")
    names: dict[int, str] = {}
    for name, tensor in named:
        names.setdefault(id(tensor), f"allreduce.{name}")
    return names


def checked_passes(passes: int) -> int:
    if passes <= 0:
        raise ValueError(f"hvd: backward_passes_per_step is {passes}, but must be at least 1")
    return passes


def checked_groups(groups: Groups) -> Groups:
    if groups is None:
        return None
    if isinstance(groups, int):
        if groups <= 0:
            raise ValueError(f"hvd: groups is {groups}, but must be at least 1, or lists of parameters")
        return groups
    if not isinstance(groups, (list, tuple)) or not all(isinstance(group, (list, tuple)) for group in groups):
        raise ValueError(f"hvd: groups is {groups!r}, neither a number nor lists of parameters")
    tensors = [tensor for group in groups for tensor in group]
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise ValueError("hvd: groups must be lists of torch.Tensor")
    if len({id(tensor) for tensor in tensors}) < len(tensors):
        raise ValueError("hvd: a parameter is in groups more than once")
    return groups
