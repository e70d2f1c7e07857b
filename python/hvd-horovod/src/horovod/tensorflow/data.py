"""TensorFlow's data service on ranks: refused."""

from horovod._names import refuse

refuse("horovod.tensorflow.data", "tf.data.experimental.service has what is needed")
