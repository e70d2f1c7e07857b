#include "blas.hpp"

#include "check.hpp"

#include <string>

namespace digits {
namespace {

void check_blas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw DeviceError(std::string(call) + ": " + cublasGetStatusString(status));
  }
}

cublasOperation_t operation(const Matrix& matrix) {
  return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

Blas::Blas(cudaStream_t stream) {
  check_blas(cublasCreate(&handle_), "cublasCreate");
  check_blas(cublasSetStream(handle_, stream), "cublasSetStream");
}

void Blas::multiply(const Matrix& left, const Matrix& right, const Matrix& product) const {
  const double one = 1;
  const double zero = 0;
  const int inner = left.transposed ? left.rows : left.columns;
  check_blas(cublasDgemm(handle_, operation(left), operation(right), product.rows, product.columns,
                         inner, &one, left.data, left.rows, right.data, right.rows, &zero,
                         product.data, product.rows),
             "cublasDgemm");
}

}  // namespace digits
