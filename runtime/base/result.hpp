// Errors as values inside libhvd. A function that can fail returns Result<T>; HVD_TRY hands an
// error on. The border to the caller is api/hvd.cpp: there an Error becomes a status code and the
// text of hvd_last_error(). Written here because the runtime needs nothing but a C++20 compiler.
#pragma once

#include "hvd/hvd.h"

#include <string>
#include <utility>
#include <variant>

namespace libhvd {

// What went wrong, in words for the user: what happened, to which tensor and ranks, what to do.
struct Error {
  hvd_status status = HVD_ERROR_SYSTEM;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only when ok().
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }

  // Only when not ok().
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success without a value.
struct Done {};
using Outcome = Result<Done>;

inline Error fail(hvd_status status, std::string message) {
  return {status, std::move(message)};
}

// An error that names the system call's errno: "cannot open X: Permission denied".
Error fail_errno(std::string what, int errno_value);

// Prefixes an error's message with where it happened.
Error with_context(const std::string& context, Error error);

}  // namespace libhvd

#define HVD_CONCAT_INNER(a, b) a##b
#define HVD_CONCAT(a, b) HVD_CONCAT_INNER(a, b)

// HVD_TRY(auto value, expression): declares value, or returns the expression's error.
#define HVD_TRY(declaration, expression)                      \
  auto HVD_CONCAT(hvd_try_, __LINE__) = (expression);         \
  if (!HVD_CONCAT(hvd_try_, __LINE__).ok())                   \
    return std::move(HVD_CONCAT(hvd_try_, __LINE__).error()); \
  declaration = std::move(*HVD_CONCAT(hvd_try_, __LINE__))

// HVD_CHECK(expression): returns the expression's error, if any, and drops its value.
#define HVD_CHECK(expression)                                         \
  do {                                                                \
    if (auto hvd_check_result = (expression); !hvd_check_result.ok()) \
      return std::move(hvd_check_result.error());                     \
  } while (false)
