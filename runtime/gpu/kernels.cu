// All of libhvd's kernels, compiled together into one image. They use no unnamed namespace: nvcc
// puts a hash of the file's path into names from there, and the image shall not depend on the path.
#include "adasum.cu"
#include "copy_batch.cu"
