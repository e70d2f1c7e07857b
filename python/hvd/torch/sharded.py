"""The class of a DistributedOptimizer with shard=True: each rank keeps the optimizer's state of its part only.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", arXiv:1910.02054, stage
1: gradients are reduced with a reducescatter, so that each rank gets the sum of its shard; it takes the optimizer's
step there; an allgather then brings the new parameters to all ranks. Parameters are reduced in buckets. A rank's shard
of a bucket is an equal part of its elements, and consists of pieces: consecutive elements of one parameter.

An inner optimizer of the plain class has the pieces as its parameters. Runs on the thread that calls step(), except for
the reducer (hvd.torch.reducer).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Optional

import torch

from .._collectives import share_of_rows, wait_for_all
from .._compression import name_of
from ..objects import allgather_object
from ..process_sets import ProcessSet
from ..schedule import agree
from ..types import Max, ReduceOp, Sum
from ._states import copied
from ._wrapping import Closure, ParamGroups, described, parameters_of, share_options, twin, wrapped
from .background import allgather_async, reducescatter_async
from .collectives import allreduce
from .gradient_optimizer import GradientOptimizer
from .reducer import Groups, Parameter, Reducer, Reduction, gradient_of, grouped, version_of

_BUCKET_BYTES = 8 << 20  # a bucket ends with the parameter that makes it larger


def sharded_optimizer(optimizer: torch.optim.Optimizer, named_parameters: Any, settings: dict[str, Any],
                      *reducer: Any) -> Any:
    """Returns the optimizer for shard=True. A collective of the process set, with the errors of hvd.schedule.agree().

    settings: what all ranks must have set to the same. reducer: the arguments of Reducer after named_parameters.
    """
    named = None if named_parameters is None else list(named_parameters)
    process_set: ProcessSet = reducer[-1]
    number = 0
    if process_set.included():
        problem = ("torch.optim.LBFGS cannot be sharded: its step needs all elements together"
                   if isinstance(optimizer, torch.optim.LBFGS) else "")
        number = agree(ShardedOptimizer.METHOD, {"the optimizer's class": type(optimizer).__name__, **settings},
                       described(optimizer, named), problem, process_set)
    inner = twin(optimizer)
    own = _ShardReducer(f"shard.{number}", optimizer.param_groups, named, *reducer)
    sharded = wrapped(ShardedOptimizer, optimizer, _reducer=own, _inner=inner, _number=number, _synchronized=False,
                      _should_synchronize=True)
    if own.takes_part():
        sharded._take_pieces()
    return sharded


class ShardedOptimizer(GradientOptimizer):
    """The base class that a DistributedOptimizer with shard=True has before the class of the wrapped optimizer.

    `state` has no entries for parameters that are sharded: those of this rank's pieces are in the inner optimizer.
    """

    METHOD = "DistributedOptimizer(shard=True)"

    _reducer: _ShardReducer
    _inner: Any
    _number: int

    def synchronize(self) -> None:
        """Waits until all gradients are reduced. Each rank then has the reduced gradients of its shard only.

        `parameter.grad` stays the rank's own gradient: clip with clip_grad_norm_() of this optimizer, and change
        nothing else. Errors: those of hvd.errors, after all reductions have ended.
        """
        if not self._reducer.takes_part():
            super().synchronize()
            return
        self._take_pieces()
        self._reducer.synchronize()
        self._synchronized = True

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scales the reduced gradients so that their norm over all parameters is at most `max_norm`. A collective.

        Call it after synchronize(), and step() inside skip_synchronize(). Returns the norm before, on the parameters'
        device, as torch.nn.utils.clip_grad_norm_() does of the unsharded gradients.
        """
        if not self._reducer.takes_part():
            return torch.nn.utils.clip_grad_norm_(parameters_of(self), max_norm, norm_type)
        gradients = [piece.tensor.grad for piece in self._reducer.pieces() if piece.tensor.grad is not None]
        device = parameters_of(self)[0].device  # not the CPU, which would wait for a GPU
        norms = [torch.linalg.vector_norm(gradient, norm_type, dtype=torch.float64).to(device)
                 for gradient in gradients]
        own = torch.stack(norms) if norms else torch.zeros(1, dtype=torch.float64, device=device)
        endless = norm_type == float("inf")
        total = own.max() if endless else own.pow(norm_type).sum()
        total = allreduce(total, name=f"shard.{self._number}.norm", op=Max if endless else Sum,
                          process_set=self._reducer.process_set)
        norm = total if endless else total.pow(1 / norm_type)
        factor = max_norm / (norm + 1e-6)
        factor = torch.fmin(factor, torch.ones_like(factor))  # 1 if the norm is NaN
        for gradient in gradients:
            gradient.mul_(factor.to(gradient.device))
        return norm

    def _apply(self, closure: Closure, **arguments: Any) -> Any:
        """Takes the step on this rank's pieces and brings the new parameters to all ranks."""
        if not self._reducer.takes_part():
            return super()._apply(closure, **arguments)
        if closure is None:
            self._reducer.refuse_changed_gradients()
        self._reducer.refresh_pieces()
        share_options(self, self._inner)
        result = self._inner.step(closure, **arguments)
        share_options(self._inner, self)
        self._reducer.gather_parameters()
        return result

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, on all ranks. ValueError if named_parameters was given and lacks one of them."""
        torch.optim.Optimizer.add_param_group(self, param_group)
        self._reducer.check_names(self.param_groups)
        if self._reducer.takes_part():
            self._inner.param_groups.append(dict(self.param_groups[-1], params=[]))
            self._take_pieces()

    def _take_pieces(self) -> None:
        """Shards the parameters that need gradients and are not sharded yet, and their state."""
        if not self._reducer.adopt(self.param_groups):
            return
        pieces: dict[int, list[_Piece]] = {}
        for piece in self._reducer.pieces():
            pieces.setdefault(id(piece.parameter.tensor), []).append(piece)
        for group, inner in zip(self.param_groups, self._inner.param_groups):
            inner["params"] = [piece.tensor for tensor in group["params"] for piece in pieces.get(id(tensor), [])]
        self._shard_state()

    def _shard_state(self) -> None:
        """Moves the state of sharded parameters to the inner optimizer, which keeps that of this rank's pieces."""
        for piece in self._reducer.pieces():
            state = self.state.get(piece.parameter.tensor)
            if state:
                self._inner.state[piece.tensor] = {key: piece.part_of(key, value) for key, value in state.items()}
        for parameter in self._reducer.parameters():
            self.state.pop(parameter.tensor, None)

    # ---- Saving and loading -----------------------------------------------------------------------

    def full_state_dict(self) -> dict[str, Any]:
        """Returns the state of all ranks together, as state_dict() of the plain optimizer. A collective of the set.

        Every rank gets all of it, so during the call it needs the memory of an unsharded state. Any number of ranks
        can load it, also the plain optimizer. ValueError if the state of a parameter has another shape than the
        parameter: such an optimizer does not treat each element by itself, and cannot be sharded.
        """
        full = copied(torch.optim.Optimizer.state_dict(self))
        if not self._reducer.takes_part():
            return full
        numbers = {id(tensor): number for number, tensor in enumerate(parameters_of(self))}
        entries = [_Entry(numbers[id(piece.parameter.tensor)], piece, self._inner.state[piece.tensor])
                   for piece in self._reducer.pieces() if piece.tensor in self._inner.state]
        process_set, name = self._reducer.process_set, f"shard.{self._number}.state"
        found = allgather_object([entry.outline for entry in entries], name, process_set)
        kinds = sorted({kind for outlines in found for outline in outlines for kind in outline.kinds})
        tensors = parameters_of(self)
        for outline in (outline for outlines in found for outline in outlines):
            state = full["state"].setdefault(outline.number, {})
            for key in outline.order:
                state.setdefault(key, outline.values.get(key))
        for key, dtype, device in kinds:
            parts = [entry.state[key] for entry in entries if (key, dtype, device) in entry.outline.kinds]
            flat = (torch.cat(parts) if parts
                    else torch.empty(0, dtype=getattr(torch, dtype), device=self._device(device)))
            gathered = allgather_async(flat, f"{name}.{key}.{dtype}.{device}", process_set).wait()
            begin = 0
            for outline in (outline for outlines in found for outline in outlines):
                if (key, dtype, device) not in outline.kinds:
                    continue
                state, tensor = full["state"][outline.number], tensors[outline.number]
                if state[key] is None:
                    state[key] = torch.empty(tensor.shape, dtype=gathered.dtype, device=gathered.device)
                length = outline.end - outline.begin
                state[key].view(-1)[outline.begin : outline.end] = gathered[begin : begin + length]
                begin += length
        full["state"] = dict(sorted(full["state"].items()))
        return full

    def _device(self, kind: str) -> torch.device:
        return next((tensor.device for tensor in parameters_of(self) if tensor.device.type == kind), torch.device(kind))

    def state_dict(self) -> dict[str, Any]:
        """RuntimeError on several ranks, because each has a part of the state only: use full_state_dict()."""
        if not self._reducer.takes_part():
            return super().state_dict()
        raise RuntimeError("hvd: the state of a DistributedOptimizer with shard=True is in parts on all ranks; call "
                           "full_state_dict() on all ranks, and load_state_dict() with its result")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state of full_state_dict(), from any number of ranks, or of the plain optimizer.

        Gradients computed since the last step() are dropped. ValueError if the state is of other parameters.
        """
        if self._reducer.takes_part():
            _check_shapes(state_dict, parameters_of(self))
            self._inner.state.clear()
        super().load_state_dict(state_dict)
        if self._reducer.takes_part():
            share_options(self, self._inner)
            self._shard_state()

    def __reduce__(self) -> Any:
        raise TypeError("hvd: an optimizer with shard=True has a part of the state only, and cannot be pickled or "
                        "copied; call full_state_dict() on all ranks, and save its result")


class _Piece:
    """Consecutive elements of a parameter that this rank updates: `begin` to `end` of the flat parameter."""

    __slots__ = ("parameter", "begin", "end", "tensor")

    def __init__(self, parameter: Parameter, begin: int, end: int) -> None:
        self.parameter = parameter
        self.begin = begin
        self.end = end
        self.tensor = self._elements().detach()  # the inner optimizer's parameter

    def _elements(self) -> torch.Tensor:
        """Returns the elements: a view of the parameter's memory, or a copy if it is not contiguous."""
        return self.parameter.tensor.detach().reshape(-1)[self.begin : self.end]

    def refresh(self) -> None:
        """Makes the piece equal to the parameter, which the program may have changed or moved since the last step."""
        tensor = self.parameter.tensor
        if tensor.is_contiguous():
            self.tensor.data = self._elements()
        else:
            self.tensor.copy_(self._elements())

    def part_of(self, key: str, value: Any) -> Any:
        """Returns this piece's part of an entry of the parameter's state."""
        if not isinstance(value, torch.Tensor) or value.dim() == 0:
            return value.clone() if isinstance(value, torch.Tensor) else value
        if value.numel() != self.parameter.tensor.numel():
            raise ValueError(f"hvd: shard=True: {key} of {self.parameter.name} has the shape {list(value.shape)}, the "
                             f"parameter {list(self.parameter.tensor.shape)}; such an optimizer cannot be sharded")
        return value.reshape(-1)[self.begin : self.end].clone()


class _Outline(NamedTuple):
    """What another rank needs to place a piece's state: the state without the tensors that are sharded."""

    number: int  # of the parameter
    begin: int
    end: int
    order: list[str]
    values: dict[str, Any]
    kinds: list[tuple[str, str, str]]  # of the sharded tensors: key, type, device


class _Entry:
    """The state of one piece."""

    def __init__(self, number: int, piece: _Piece, state: dict[str, Any]) -> None:
        self.state = state
        sharded = {key: value for key, value in state.items() if isinstance(value, torch.Tensor) and value.dim() > 0}
        for key, value in sharded.items():
            if value.shape != piece.tensor.shape:
                raise ValueError(f"hvd: shard=True: {key} of {piece.parameter.name} has the shape {list(value.shape)} "
                                 f"for {piece.tensor.numel()} elements; such an optimizer cannot be sharded")
        self.outline = _Outline(number, piece.begin, piece.end, list(state),
                                {key: value for key, value in state.items() if key not in sharded},
                                [(key, str(value.dtype).replace("torch.", ""), value.device.type)
                                 for key, value in sharded.items()])


def _check_shapes(state_dict: dict[str, Any], tensors: Sequence[torch.Tensor]) -> None:
    for number, state in state_dict["state"].items():
        for key, value in state.items() if isinstance(number, int) else ():
            if isinstance(value, torch.Tensor) and value.dim() > 0 and number < len(tensors) \
                    and value.shape != tensors[number].shape:
                raise ValueError(f"hvd: the state to load has {key} of shape {list(value.shape)} for parameter "
                                 f"{number}, whose shape is {list(tensors[number].shape)}; it was saved with another model")


class _Bucket:
    """The parameters of a reduction in a row, and this rank's pieces of them."""

    def __init__(self, reduction: Reduction, process_set: ProcessSet) -> None:
        self.reduction = reduction
        rank, ranks = process_set.rank(), process_set.size()
        elements = sum(parameter.tensor.numel() for parameter in reduction.parameters)
        begin = sum(share_of_rows(elements, other, ranks) for other in range(rank))
        end = begin + share_of_rows(elements, rank, ranks)
        self.pieces: list[_Piece] = []
        place = 0
        for parameter in reduction.parameters:
            length = parameter.tensor.numel()
            first, last = max(begin - place, 0), min(end - place, length)
            if first < last:
                self.pieces.append(_Piece(parameter, first, last))
            place += length


class _ShardReducer(Reducer):
    """Reduces gradients so that each rank gets those of its pieces, as their `grad`."""

    reduces_in_place = False

    def __init__(self, name: str, param_groups: ParamGroups, *arguments: Any) -> None:
        self.process_set: ProcessSet = arguments[-1]
        self._name = name
        self._buckets: list[_Bucket] = []
        # Name, gradient and its version, of the last reduction.
        self._sent: list[tuple[str, torch.Tensor, Optional[int]]] = []
        self._groups: Groups = arguments[5]
        super().__init__([], *arguments)
        self.check_names(param_groups)
        if not self.takes_part():
            self.adopt(param_groups)

    def adopt(self, param_groups: ParamGroups, groups: Groups = None) -> list[Reduction]:
        added = super().adopt(param_groups, self._groups)
        if self.takes_part():
            self._buckets += [_Bucket(reduction, self.process_set) for reduction in added]
        return added

    def pieces(self) -> Iterable[_Piece]:
        return (piece for bucket in self._buckets for piece in bucket.pieces)

    def parameters(self) -> Iterable[Parameter]:
        return (parameter for bucket in self._buckets for parameter in bucket.reduction.parameters)

    def _partition(self, parameters: list[Parameter], groups: Groups) -> Iterable[list[Parameter]]:
        if groups is not None:
            return grouped(parameters, groups)
        buckets: list[list[Parameter]] = []
        room: dict[Any, int] = {}
        latest: dict[Any, list[Parameter]] = {}
        # backward() computes the gradients of the last parameters first.
        for parameter in reversed(parameters):
            kind = parameter.tensor.dtype, parameter.tensor.device
            if room.get(kind, 0) <= 0:
                latest[kind] = []
                buckets.append(latest[kind])
                room[kind] = _BUCKET_BYTES
            latest[kind].append(parameter)
            room[kind] -= parameter.tensor.numel() * parameter.tensor.element_size()
        return buckets

    def _submit(self, reduction: Reduction) -> None:
        gradients = [gradient_of(parameter) for parameter in reduction.parameters]
        dense = []
        for parameter, gradient in zip(reduction.parameters, gradients):
            if gradient.is_sparse and not self._sparse_as_dense:
                raise ValueError(f"hvd: the gradient of {parameter.name} is sparse; with shard=True use "
                                 "sparse_as_dense=True")
            dense.append((gradient.to_dense() if gradient.is_sparse else gradient).detach().reshape(-1))
        tensor, context = self._compression.compress(dense[0] if len(dense) == 1 else torch.cat(dense))
        reduction.gradients = gradients
        reduction.versions = [version_of(gradient) for gradient in gradients]
        reduction.contexts = [context]
        reduction.handle = reducescatter_async(tensor, f"{self._name}.{reduction.name}", self._op, self.process_set,
                                               self._prescale, self._postscale)

    def synchronize(self) -> None:
        self._sent = []
        super().synchronize()

    def _finish(self, reduction: Reduction) -> None:
        if reduction.handle is None:
            return
        sent = [(parameter.name, gradient, version) for parameter, gradient, version
                in zip(reduction.parameters, reduction.gradients, reduction.versions)]
        result = self._compression.decompress(reduction.handle.wait(), reduction.contexts[0])
        _refuse_changed(sent)
        self._sent += sent
        [bucket] = [bucket for bucket in self._buckets if bucket.reduction is reduction]
        place = 0
        for piece in bucket.pieces:
            length = piece.end - piece.begin
            tensor = piece.parameter.tensor
            frozen = not tensor.requires_grad and tensor.grad is None
            piece.refresh()
            piece.tensor.grad = None if frozen else result[place : place + length]
            place += length

    def refuse_changed_gradients(self) -> None:
        """Raises AssertionError if a gradient was changed after its reduction, which has no effect."""
        _refuse_changed(self._sent)

    def refresh_pieces(self) -> None:
        for piece in self.pieces():
            piece.refresh()

    @torch.no_grad()
    def gather_parameters(self) -> None:
        """Brings each rank's pieces of the parameters to all ranks."""
        handles = []
        for bucket in self._buckets:
            parts = [piece.tensor for piece in bucket.pieces]
            first = bucket.reduction.parameters[0].tensor
            own = torch.cat(parts) if parts else torch.empty(0, dtype=first.dtype, device=first.device)
            handles.append(allgather_async(own, f"{self._name}.{bucket.reduction.name}.parameters", self.process_set))
        for bucket, flat in zip(self._buckets, wait_for_all(handles)):
            place = 0
            for parameter in bucket.reduction.parameters:
                length = parameter.tensor.numel()
                parameter.tensor.copy_(flat[place : place + length].view(parameter.tensor.shape))
                place += length


def _refuse_changed(sent: Sequence[tuple[str, torch.Tensor, Optional[int]]]) -> None:
    changed: Optional[str] = next((name for name, gradient, version in sent if version_of(gradient) != version), None)
    if changed is not None:
        raise AssertionError(f"hvd: the gradient of {changed} was changed after backward(), which has no effect with "
                             "shard=True; call synchronize(), then clip_grad_norm_() of the optimizer, then step() "
                             "inside skip_synchronize()")


def settings_of(compression: Any, passes: int, op: ReduceOp, predivide_factor: float, groups: Groups) -> dict[str, Any]:
    """Returns the arguments of a DistributedOptimizer that must be the same on all ranks."""
    return {"compression": name_of(compression), "backward_passes_per_step": passes,
            "op": ReduceOp(op).name, "gradient_predivide_factor": predivide_factor,
            "the number of groups": groups if isinstance(groups, int) or groups is None else len(groups)}
