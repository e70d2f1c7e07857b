#include "check.hpp"
#include "kernels.hpp"

namespace digits {
namespace {

constexpr int kThreads = 128;  // of a block

int blocks_for(int count) {
  return (count + kThreads - 1) / kThreads;
}

__device__ int own_index() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void rectify_one(double* values, const double* biases, int rows, int count) {
  const int i = own_index();
  if (i < count) values[i] = fmax(values[i] + biases[i % rows], 0.0);
}

__global__ void rectify_error_of_one(double* error, const double* values, int count) {
  const int i = own_index();
  if (i < count && values[i] == 0) error[i] = 0;
}

__device__ int add_biases(double* scores, const double* biases, int classes) {
  int best = 0;
  for (int i = 0; i < classes; ++i) {
    scores[i] += biases[i];
    if (scores[i] > scores[best]) best = i;
  }
  return best;
}

// Turns scores into probabilities. Subtracts the highest score first, because exp might overflow.
__device__ void softmax(double* scores, double highest, int classes) {
  double sum = 0;
  for (int i = 0; i < classes; ++i) {
    scores[i] = exp(scores[i] - highest);
    sum += scores[i];
  }
  for (int i = 0; i < classes; ++i) scores[i] /= sum;
}

// One thread per sample, because there are few classes.
__global__ void score_one(double* scores, const double* biases, const int* labels, double* results,
                          int classes, int samples) {
  const int sample = own_index();
  if (sample >= samples) return;
  double* const own = scores + sample * classes;
  const int label = labels[sample];
  const int guess = add_biases(own, biases, classes);
  softmax(own, own[guess], classes);
  results[2 * sample] = -log(own[label]);
  results[2 * sample + 1] = guess == label ? 1 : 0;
  own[label] -= 1;
}

__global__ void update_one(double* parameters, double* velocity, const double* gradient, int count,
                           Update by) {
  const int i = own_index();
  if (i >= count) return;
  velocity[i] = by.momentum * velocity[i] - by.learning_rate * gradient[i] / by.batch_size;
  parameters[i] += velocity[i];
}

}  // namespace

void rectify(double* values, const double* biases, int rows, int samples, cudaStream_t stream) {
  const int count = rows * samples;
  rectify_one<<<blocks_for(count), kThreads, 0, stream>>>(values, biases, rows, count);
  check(cudaGetLastError(), "rectify");
}

void rectify_error(double* error, const double* values, int count, cudaStream_t stream) {
  rectify_error_of_one<<<blocks_for(count), kThreads, 0, stream>>>(error, values, count);
  check(cudaGetLastError(), "rectify_error");
}

void score(double* scores, const double* biases, const int* labels, double* results, int classes,
           int samples, cudaStream_t stream) {
  score_one<<<blocks_for(samples), kThreads, 0, stream>>>(scores, biases, labels, results, classes,
                                                          samples);
  check(cudaGetLastError(), "score");
}

void update(double* parameters, double* velocity, const double* gradient, int count,
            const Update& by, cudaStream_t stream) {
  update_one<<<blocks_for(count), kThreads, 0, stream>>>(parameters, velocity, gradient, count, by);
  check(cudaGetLastError(), "update");
}

}  // namespace digits
