// What cuBLAS does not do, in kernels of our own. Each comes behind what the stream has so far.
// Matrices have a column a sample.
#pragma once

#include <cuda_runtime_api.h>

namespace digits {

// values = max(values + biases, 0), with a bias for each of the rows.
void rectify(double* values, const double* biases, int rows, int samples, cudaStream_t stream);

// error = 0 where the rectified values are 0.
void rectify_error(double* error, const double* values, int count, cudaStream_t stream);

// Scores, to which the biases are added here, become the derivative of the summed cross-entropy by
// them; results get loss and hit (0 or 1) of each sample.
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
