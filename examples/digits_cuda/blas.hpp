// Products of matrices in device memory, with cuBLAS.
#pragma once

#include <cublas_v2.h>

namespace digits {

// A view of elements that it does not own, column by column as in Eigen.
struct Matrix {
  double* data;
  int rows;
  int columns;
  bool transposed = false;  // in a product; `rows` and `columns` describe the memory

  double* end() const { return data + rows * columns; }
  Matrix transpose() const { return {data, rows, columns, !transposed}; }
};

class Blas {
 public:
  // Enqueues all products on this stream.
  explicit Blas(cudaStream_t stream);
  ~Blas() { cublasDestroy(handle_); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // Computes product = left right. None may be empty.
  void multiply(const Matrix& left, const Matrix& right, const Matrix& product) const;

 private:
  cublasHandle_t handle_ = nullptr;
};

}  // namespace digits
