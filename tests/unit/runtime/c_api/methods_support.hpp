// For tests of hvd/methods.hpp: tensors of float as parameters, and what must hold for them on each
// rank. A test's body calls these between hvd::init() and hvd::shutdown(); they throw what is
// wrong.
#pragma once

#include "expect_right.hpp"

#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <hvd/methods.hpp>

namespace libhvd::test {

using Values = std::vector<float>;

inline void add_all(hvd::State&) {}
template <class Value, class... More>
void add_all(hvd::State& state, const char* name, Value& value, More&&... more) {
  state.add(name, value);
  add_all(state, more...);
}

// Returns a state of these names and variables: named("weights", weights, "bias", bias).
template <class... Named>
hvd::State named(Named&&... named) {
  hvd::State state;
  add_all(state, named...);
  return state;
}

inline void require_near(const Values& got, const Values& wanted, const std::string& what,
                         float tolerance = 1e-5F) {
  require(got.size() == wanted.size(), what + ": sizes");
  for (std::size_t i = 0; i < got.size(); ++i) {
    require(std::abs(got[i] - wanted[i]) < tolerance, what + ": element " + std::to_string(i) +
                                                          " is " + std::to_string(got[i]) +
                                                          " and not " + std::to_string(wanted[i]));
  }
}

// Throws unless all ranks have the same values. All ranks must call it.
inline void require_alike(const Values& values, const std::string& what) {
  Values lowest = values, highest = values;
  hvd::allreduce(std::span(lowest), hvd::Op::min);
  hvd::allreduce(std::span(highest), hvd::Op::max);
  require(lowest == highest, what + ": the ranks differ");
}

// Throws unless the call throws an hvd::Error with this text in it.
inline void require_error(const std::function<void()>& call, const std::string& text) {
  const std::string error = error_of(call);
  require(error.find(text) != std::string::npos, "\"" + error + "\" lacks " + text);
}

}  // namespace libhvd::test
