#include "collective/arguments.hpp"

#include "collective/element.hpp"

namespace libhvd {
namespace {

std::string check_type(hvd_type type) {
  if (element_size(type) != 0) return {};
  return "the type " + std::to_string(type) + " is none of HVD_UINT8, HVD_INT8, …";
}

std::string check_count(std::size_t count) {
  if (count <= kMostElements) return {};
  return "the count " + std::to_string(count) + " is more than any memory holds";
}

std::string check_buffer(const char* what, const void* buffer, std::size_t count) {
  if (buffer != nullptr || count == 0) return {};
  return std::string("the ") + what + " is null with a count of " + std::to_string(count);
}

}  // namespace

std::string check_allreduce(const void* input, const void* output, std::size_t count, hvd_type type,
                            hvd_op op) {
  if (auto fault = check_type(type); !fault.empty()) return fault;
  if (!op_exists(op)) {
    return "the op " + std::to_string(op) + " is none of HVD_AVERAGE, HVD_SUM, …";
  }
  if (type == HVD_BOOL && op == HVD_AVERAGE) return "there is no average of bool";
  if (auto fault = check_count(count); !fault.empty()) return fault;
  if (auto fault = check_buffer("input", input, count); !fault.empty()) return fault;
  if (auto fault = check_buffer("output", output, count); !fault.empty()) return fault;
  const std::size_t bytes = count * element_size(type);
  if (input != output && overlap(input, bytes, output, bytes)) {
    return "input and output overlap but are not the same buffer";
  }
  return {};
}

std::string check_broadcast(const void* buffer, std::size_t count, hvd_type type, int root,
                            int size) {
  if (auto fault = check_type(type); !fault.empty()) return fault;
  if (root < 0 || root >= size) {
    return "the root " + std::to_string(root) + " is not a rank of 0 to " +
           std::to_string(size - 1);
  }
  if (auto fault = check_count(count); !fault.empty()) return fault;
  return check_buffer("buffer", buffer, count);
}

std::string check_allgather(const void* input, std::size_t rows, std::size_t row_size,
                            hvd_type type, const void* output, std::size_t output_rows) {
  if (auto fault = check_type(type); !fault.empty()) return fault;
  if (auto fault = check_count(row_size); !fault.empty()) return fault;
  if (row_size == 0) return {};
  const std::size_t most_rows = kMostBytes / element_size(type) / row_size;
  if (rows > most_rows || output_rows > most_rows) {
    return std::to_string(rows > most_rows ? rows : output_rows) + " rows of " +
           std::to_string(row_size) + " elements are more than any memory holds";
  }
  if (auto fault = check_buffer("input", input, rows); !fault.empty()) return fault;
  if (auto fault = check_buffer("output", output, output_rows); !fault.empty()) return fault;
  const std::size_t row_bytes = row_size * element_size(type);
  if (overlap(input, rows * row_bytes, output, output_rows * row_bytes)) {
    return "input and output overlap";
  }
  return {};
}

}  // namespace libhvd
