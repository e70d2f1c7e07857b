"""Checks a parameter server of Keras on each of several hosts: prints the names of the checks that pass, or raises."""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf

import hvd.tensorflow.keras as hvd
from hvd import job

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cases"))
from _expect import raises, run_checks  # noqa: E402
from _keras import check_equal_on_all_ranks, flat, model_of, near, train  # noqa: E402


def check_staleness_0_gives_the_synchronous_result() -> None:
    model, other = model_of(), model_of()
    optimizer = hvd.ParameterServer(tf.keras.optimizers.SGD(0.1, momentum=0.9), per_host=True)
    train(model, optimizer, range(4), graph=True)
    train(other, hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9)), range(4))
    optimizer.synchronize()
    near(model, flat(other))
    check_equal_on_all_ranks(model)


def check_servers_average_after_each_period_and_at_the_end() -> None:
    """The gradients of a host are its index + 1, so the expected weights of its server are known."""
    hosts = hvd.allgather_object(job.node_rank())
    mean = sum(host + 1 for host in hosts) / len(hosts)
    for staleness in (0, 2):
        weight = tf.Variable([0.0])
        optimizer = hvd.ParameterServer(tf.keras.optimizers.SGD(1.0), staleness, per_host=True, every=3)
        for step in range(5 if job.node_rank() == 1 else 3):  # host 0 does not change its weights after the average
            optimizer.apply_gradients([(tf.constant([-job.node_rank() - 1.0]), weight)])
            assert step != 2 or staleness or abs(weight.numpy()[0] - 3 * mean) < 1e-5, weight.numpy()
        optimizer.synchronize()
        assert abs(weight.numpy()[0] - (3 * mean + 4)) < 1e-5, weight.numpy()


def check_states() -> None:
    model = model_of()
    optimizer = hvd.ParameterServer(tf.keras.optimizers.Adam(), per_host=True)
    train(model, optimizer, range(1))
    state = optimizer.full_state_dict()
    with raises(ValueError, "saved with per_host = True", "per_host = False"):
        hvd.ParameterServer(tf.keras.optimizers.Adam()).load_state_dict(state, model.trainable_variables)
    again = hvd.ParameterServer(tf.keras.optimizers.Adam(), per_host=True)
    again.load_state_dict(state, model.trainable_variables)
    train(model, again, range(1))
    assert again.full_state_dict()["iterations"] == 2


hvd.init()
run_checks(globals())
hvd.shutdown()
