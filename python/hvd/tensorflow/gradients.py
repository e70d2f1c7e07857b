"""Reduces the gradients of a step, all in one call; and DistributedGradientTape.

One call (see _calls.py) costs its overhead once per step, however many gradients it has. libhvd fuses small gradients.
`groups` names gradients that must be reduced as one operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import tensorflow as tf

from .._compression import refuse_wire, wire_of
from .._retired import groups_of
from ..process_sets import ProcessSet, global_process_set
from ..types import Adasum, Average, ReduceOp
from . import _requests
from ._calls import Request, as_written, name_of, numbered, of_gradients, run
from .collectives import Gradient, check_device, slices_of, slices_requests
from .compression import Compression

Groups = Union[None, int, Sequence[Sequence[Any]]]


def key_of(variable: Any) -> Any:
    """Returns a hashable key, equal for a variable of Keras 3 and the TensorFlow variable in it."""
    inner = getattr(variable, "value", None)
    return (inner if isinstance(inner, tf.Variable) else variable).ref()


@dataclass(frozen=True)
class Reduction:
    """The settings for reducing the gradients of an optimizer or a tape."""

    name: str
    op: ReduceOp = Average
    compression: Any = Compression.none
    sparse_as_dense: bool = False
    gradient_predivide_factor: float = 1.0
    groups: Groups = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True
    local: set[Any] = field(default_factory=set)  # key_of() each variable whose gradient is not reduced

    def __post_init__(self) -> None:
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise ValueError("hvd: gradient_predivide_factor goes with op=hvd.Average only")
        if self.op == Adasum:
            refuse_wire(self.compression, "op=Adasum")
        if isinstance(self.groups, int) and self.groups <= 0:
            raise ValueError(f"hvd: groups={self.groups}; a number of groups is at least 1")

    @as_written
    def reduce(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        """Returns the reduced gradients; None stays None.

        Gradients of local variables are not reduced. With scale_local_gradients they are divided by the number of
        ranks, because the reduced ones are averages.
        """
        results = [tf.convert_to_tensor(gradient) if self.sparse_as_dense and isinstance(gradient, tf.IndexedSlices)
                   else gradient for gradient in gradients]
        if not self.process_set.included() or self.process_set.size() == 1:
            return results
        shared = []
        for index, (gradient, variable) in enumerate(zip(results, variables)):
            if gradient is None:
                continue
            if self.local and key_of(variable) in self.local:
                results[index] = self._local(gradient)
            else:
                shared.append(index)
        reduced = self._reduce([results[index] for index in shared], [variables[index] for index in shared])
        for index, gradient in zip(shared, reduced):
            results[index] = gradient
        return results

    def _local(self, gradient: Gradient) -> Gradient:
        return divided(gradient, self.process_set.size()) if self.scale_local_gradients else gradient

    def _reduce(self, gradients: list[Any], variables: list[Any]) -> list[Gradient]:
        if not gradients:
            return []
        sparse = [index for index, gradient in enumerate(gradients) if isinstance(gradient, tf.IndexedSlices)]
        dense = [index for index in range(len(gradients)) if index not in sparse]
        base = name_of(self.name, "", None, ignore_name_scope=True) or self.name
        requests = [request for index in sparse for request in
                    slices_requests(gradients[index], f"{base}.{index}", self.op, self.process_set)]
        compressed = [self.compression.compress(gradients[index]) for index in dense]
        groups = self._groups(dense, [value for value, _ in compressed], variables)
        reduced, gathered = self._run([value for value, _ in compressed], groups, requests, base)
        results: list[Gradient] = [None] * len(gradients)
        for index, value, (_, context) in zip(dense, reduced, compressed):
            results[index] = self.compression.decompress(value, context)
        for index, values, indices in zip(sparse, gathered[::2], gathered[1::2]):
            results[index] = slices_of(values, indices, gradients[index], self.op, 1.0, self.process_set)
        return results

    def _run(self, values: list[tf.Tensor], groups: list[list[int]], others: list[Request],
             base: str) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Reduces `values` and runs `others` in one call. Returns the reduced values, and each other's first output."""
        if not values:
            return [], [result[0] for result in run(others)]
        gathered: list[tf.Tensor] = []

        @tf.custom_gradient
        def reduced(*tensors: tf.Tensor) -> Any:
            results = run(others + self._requests(list(tensors), groups, base))
            gathered.extend(result[0] for result in results[: len(others)])
            order = [index for group in groups for index in group]
            tensors_of = dict(zip(order, (tensor for result in results[len(others) :] for tensor in result)))

            def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
                return self._run([tf.convert_to_tensor(entry) for entry in upstream], groups, [],
                                 numbered(f"{base}.gradient"))[0]

            return tuple(tensors_of[index] for index in range(len(tensors))), gradient

        return list(reduced(*values)), gathered

    def _requests(self, values: list[tf.Tensor], groups: list[list[int]], base: str) -> list[Request]:
        # The predivide factor is applied before the sum and undone after it; libhvd divides by the size.
        before, after = 1.0 / self.gradient_predivide_factor, self.gradient_predivide_factor
        wire = wire_of(self.compression)
        requests = []
        for group in groups:
            name = f"{base}.{group[0]}"
            if len(group) == 1:
                request = _requests.allreduce(values[group[0]], name, self.op, before, after, self.process_set, wire)
            else:
                request = _requests.grouped_allreduce([values[index] for index in group], f"{name}.group", self.op,
                                                      before, after, self.process_set, wire)
            requests.append(of_gradients(request))
        return requests

    def _groups(self, dense: list[int], values: list[tf.Tensor], variables: list[Any]) -> list[list[int]]:
        """Returns the indices in `values` of the gradients that are reduced together; each group is of one type."""
        indices = range(len(values))
        if self.groups is None:
            return [[index] for index in indices]
        if isinstance(self.groups, int):
            count = min(self.groups, len(values))
            parts = [list(indices[len(values) * part // count : len(values) * (part + 1) // count])
                     for part in range(count)]
        else:
            group_of = {key_of(variable): index for index, group in enumerate(self.groups) for variable in group}
            by_group: dict[Any, list[int]] = {}
            for index in indices:
                alone = ("alone", index)
                by_group.setdefault(group_of.get(key_of(variables[dense[index]]), alone), []).append(index)
            parts = list(by_group.values())
        return [same for part in parts for same in _by_type(part, values)]


def _by_type(indices: Iterable[int], values: list[tf.Tensor]) -> list[list[int]]:
    kinds: dict[str, list[int]] = {}
    for index in indices:
        kinds.setdefault(values[index].dtype.name, []).append(index)
    return list(kinds.values())


def divided(gradient: Gradient, by: float) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values
        return tf.IndexedSlices(values / tf.cast(by, values.dtype), gradient.indices, gradient.dense_shape)
    return None if gradient is None else gradient / tf.cast(by, gradient.dtype)


def layers_variables(layers: Any) -> list[Any]:
    """Returns the trainable variables of a `local_layers` argument: a Keras layer, several, or None."""
    entries = [] if layers is None else [layers] if isinstance(layers, tf.keras.layers.Layer) else list(layers)
    for entry in entries:
        if not isinstance(entry, tf.keras.layers.Layer):
            raise ValueError(f"hvd: local_layers has {entry!r}, which is no Keras layer")
    return [variable for entry in entries for variable in entry.trainable_weights]


class _Distributed:
    """The base class that a distributed tape has in front of the class of the tape."""

    _reduction: Reduction

    def register_local_source(self, source: Any) -> None:
        """Excludes the gradient of this variable from the reduction."""
        self._reduction.local.add(key_of(source))

    @as_written
    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Like tf.GradientTape.gradient(), with reduced gradients."""
        # With use_generic_names Horovod names the gradients by their numbers; hvd always does.
        kwargs.pop("use_generic_names", None)
        found = super().gradient(target, sources, output_gradients, *args, **kwargs)  # type: ignore[misc]
        gradients = self._reduction.reduce(tf.nest.flatten(found), tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(sources, gradients)

    @as_written
    def get_local_and_global_gradients(self, target: Any, sources: Any, output_gradients: Any = None) -> Any:
        """Returns two lists of pairs (source, gradient): those of local sources, and those of the others."""
        pairs: tuple[list[Any], list[Any]] = ([], [])
        for source, gradient in zip(sources, self.gradient(target, sources, output_gradients)):
            pairs[key_of(source) not in self._reduction.local].append((source, gradient))
        return pairs


@as_written
def DistributedGradientTape(gradtape: tf.GradientTape, device_dense: str = "", device_sparse: str = "",
                            compression: Any = Compression.none, sparse_as_dense: bool = False,
                            op: ReduceOp = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                            groups: Groups = None, process_set: ProcessSet = global_process_set,
                            scale_local_gradients: bool = True) -> Any:
    """Returns the tape itself, changed so that gradient() reduces."""
    check_device(device_dense, "device_dense")
    check_device(device_sparse, "device_sparse")
    kind = type(gradtape)
    if issubclass(kind, _Distributed):
        raise ValueError("hvd: this tape is a DistributedGradientTape already")
    gradtape.__class__ = type(kind.__name__, (_Distributed, kind), {})
    gradtape._reduction = Reduction(
        "DistributedGradientTape", op, compression, sparse_as_dense, gradient_predivide_factor,
        groups_of(groups, num_groups), process_set, scale_local_gradients)
    return gradtape


@as_written
def PartialDistributedGradientTape(gradtape: tf.GradientTape, device_dense: str = "", device_sparse: str = "",
                                   compression: Any = Compression.none, sparse_as_dense: bool = False,
                                   op: ReduceOp = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                                   groups: Groups = None, process_set: ProcessSet = global_process_set,
                                   local_layers: Any = None, scale_local_gradients: bool = True) -> Any:
    """Like DistributedGradientTape(), but does not reduce gradients of `local_layers` (a Keras layer or several)."""
    variables = layers_variables(local_layers)
    tape = DistributedGradientTape(gradtape, device_dense, device_sparse, compression, sparse_as_dense, op,
                                   gradient_predivide_factor, num_groups, groups, process_set, scale_local_gradients)
    for variable in variables:
        tape.register_local_source(variable)
    return tape
