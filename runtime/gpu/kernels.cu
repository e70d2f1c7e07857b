// All of libhvd's kernels, compiled together into one image.
#include "adasum.cu"
#include "copy_batch.cu"
