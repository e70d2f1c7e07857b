"""DistributedOptimizer: a torch optimizer whose gradients are reduced over all ranks.

The reduction of a gradient starts in the background as soon as backward() has accumulated it, while backward()
continues with earlier layers. step() waits for all reductions.
"""

from __future__ import annotations

from typing import Any, Optional, TypeVar

import torch

from .._collectives import of_gradients
from .._compression import refuse_wire
from .._retired import groups_of
from ..process_sets import ProcessSet, global_process_set, id_of
from ..types import Adasum, Average, ReduceOp
from ._wrapping import Closure, NamedParameters, Wrapped, refuse_wrapped, wrapped
from .background import grouped_allreduce_async_
from .compression import Compression, Compressor
from .gradient_optimizer import GradientOptimizer
from .reducer import Groups, Reducer, checked_groups, checked_passes
from .sharded import settings_of, sharded_optimizer


Optimizer = TypeVar("Optimizer", bound=torch.optim.Optimizer)


def DistributedOptimizer(  # noqa: N802 (Horovod's name; it returns an instance of a class)
        optimizer: Optimizer, named_parameters: Optional[NamedParameters] = None,
        compression: type[Compressor] = Compression.none, backward_passes_per_step: int = 1, op: ReduceOp = Average,
        gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Groups = None,
        sparse_as_dense: bool = False, process_set: ProcessSet = global_process_set, shard: bool = False) -> Optimizer:
    """Returns `optimizer` with gradients reduced over all ranks; use it instead of `optimizer`.

    The result is an instance of a subclass of the optimizer's class, and shares its parameters and its state.

    named_parameters: `model.named_parameters()`. The names appear in messages, and match the parameters of ranks that
    have them in another order. Without it parameters are matched by their indices.
    compression: the form in which gradients are sent, for example Compression.fp16. Compression.wire_... are for
    Average and Sum, and not with shard.
    backward_passes_per_step: the number of calls of backward() before each step(); the gradients add up.
    op: Average, Sum, Min, Max, Product or Adasum. With Adasum, as in Horovod, each rank takes the step with its own
    gradients, and the change of each parameter is reduced with Adasum. The options for gradients then have no effect,
    and synchronize() before step() does nothing.
    gradient_predivide_factor: for Average only. Gradients are divided by it before they are added, and the sum is
    divided by size / factor.
    groups: reduces gradients together, as one operation: a number of groups with about as many parameters each, or
    lists of parameters (a parameter in no list is reduced alone). num_groups: the deprecated name of groups.
    sparse_as_dense: reduces sparse gradients as dense ones, instead of gathering the rows of all ranks.
    process_set: the ranks that reduce with each other. On any other rank the optimizer works as if it were not wrapped.

    shard: keeps 1/N of the optimizer's state on each of N ranks (ZeRO stage 1, arXiv:1910.02054): a reducescatter of
    the gradients, the step on this rank's part of the parameters, and an allgather of the parameters. For optimizers
    that treat each element by itself (SGD, Adam, AdamW, ...). The call is then a collective, and some calls of the
    result
    differ: state_dict() becomes full_state_dict(), and torch's clip_grad_norm_() that of the optimizer.

    A parameter without a gradient on this rank takes part with zeros, because other ranks may have a gradient for it.

    Errors: ValueError for an invalid argument; NotInitializedError for a process set that is not known yet. With shard,
    MismatchError on all ranks if their arguments or parameters differ, InvalidArgumentError for LBFGS.
    """
    id_of(process_set)
    refuse_wrapped(optimizer)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError(f"hvd: gradient_predivide_factor is for op=Average, not for {ReduceOp(op).name}")
    groups = groups_of(groups, num_groups)
    if shard or op == Adasum:
        refuse_wire(compression, "shard=True" if shard else "op=Adasum")
    if shard:
        if op == Adasum:
            raise ValueError("hvd: shard=True is not for op=hvd.Adasum, which reduces what each rank's step changes")
        return sharded_optimizer(
            optimizer, named_parameters,
            settings_of(compression, backward_passes_per_step, op, gradient_predivide_factor, groups), compression,
            checked_passes(backward_passes_per_step), op, gradient_predivide_factor, checked_groups(groups),
            sparse_as_dense, process_set)
    if op == Adasum:
        return wrapped(_AdasumOptimizer, optimizer, _compression=compression, _process_set=process_set,
                       backward_passes_per_step=checked_passes(backward_passes_per_step))
    reducer = Reducer(optimizer.param_groups, named_parameters, compression, backward_passes_per_step, op,
                      gradient_predivide_factor, checked_groups(groups), sparse_as_dense, process_set)
    return wrapped(GradientOptimizer, optimizer, _reducer=reducer, _synchronized=False, _should_synchronize=True)


class _AdasumOptimizer(Wrapped):
    """Like GradientOptimizer, for Adasum."""

    backward_passes_per_step: int  # as set by the program; the gradients add up
    _compression: type[Compressor]
    _process_set: ProcessSet

    def set_backward_passes_per_step(self, passes: int) -> None:
        self.backward_passes_per_step = checked_passes(passes)

    def synchronize(self) -> None:
        """Does nothing: step() reduces the changes that it makes."""

    def skip_synchronize(self) -> Any:
        raise AssertionError("hvd: skip_synchronize() is not for op=hvd.Adasum, which reduces what step() changes")

    def step(self, closure: Closure = None, **arguments: Any) -> Any:
        """Takes the optimizer's step with this rank's gradients, then reduces the ranks' changes with Adasum.

        Each parameter is reduced by itself. Its new value is the one before the step plus the reduced change.
        """
        if not self._process_set.included():
            return super().step(closure, **arguments)
        tensors = [tensor for group in self.param_groups for tensor in group["params"] if tensor.requires_grad]
        before = [tensor.detach().clone() for tensor in tensors]
        result = super().step(closure, **arguments)
        with torch.no_grad():
            sent = [self._compression.compress(tensor - old) for tensor, old in zip(tensors, before)]
            with of_gradients():
                handle = grouped_allreduce_async_([change for change, _ in sent], name="DistributedOptimizer, Adasum",
                                                  op=Adasum, process_set=self._process_set)
            for tensor, old, change, (_, context) in zip(tensors, before, handle.wait(), sent):
                tensor.copy_(old + self._compression.decompress(change, context))
        return result

    step.hooked = True  # type: ignore[attr-defined]
