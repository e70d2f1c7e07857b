// Kernels for operations that cuBLAS does not have. Each function enqueues one on the stream.
// Columns of matrices are samples.
#pragma once

#include <cuda_runtime_api.h>

namespace digits {

// Computes values = max(values + biases, 0), with one bias per row.
void rectify(double* values, const double* biases, int rows, int samples, cudaStream_t stream);

// Sets error = 0 where the rectified values are 0.
void rectify_error(double* error, const double* values, int count, cudaStream_t stream);

// Adds the biases to the scores, then replaces the scores by the derivative of the summed
// cross-entropy by them. Writes loss and hit (0 or 1) of each sample to `results`.
void score(double* scores, const double* biases, const int* labels, double* results, int classes,
           int samples, cudaStream_t stream);

struct Update {
  double momentum;
  double learning_rate;
  double batch_size;
};
void update(double* parameters, double* velocity, const double* gradient, int count,
            const Update& by, cudaStream_t stream);

}  // namespace digits
