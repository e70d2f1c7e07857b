// What int8 compression has left out of a tensor so far, for the tensor's next allreduce
// (compression.hpp). The engine keeps one for each name. One thread at a time.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace libhvd {

class ErrorFeedback {
 public:
  // Returns the residuals, one for each element; zeros at first, and when a tensor of another
  // length, type or op has the name. Returns null if there is no memory: then nothing is kept.
  //
  // A rank keeps the residuals of the elements that it compresses. The pages of the others are
  // never touched, and so need no memory.
  float* residuals(std::size_t count, hvd_type type, hvd_op op) {
    if (!values_ || count != count_ || type != type_ || op != op_) {
      values_.reset(static_cast<float*>(std::calloc(count == 0 ? 1 : count, sizeof(float))));
      count_ = count;
      type_ = type;
      op_ = op;
    }
    return values_.get();
  }

 private:
  struct Free {
    void operator()(float* values) const { std::free(values); }
  };

  std::unique_ptr<float, Free> values_;
  std::size_t count_ = 0;
  hvd_type type_ = 0;
  hvd_op op_ = 0;
};

}  // namespace libhvd
