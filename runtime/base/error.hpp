// libhvd's errors as values. c_api/c_api.cpp converts an Error to a status code and the text of
// hvd_last_error() for the caller.
#pragma once

#include "common/result.hpp"
#include "hvd/hvd.h"

#include <exception>
#include <new>
#include <string>
#include <utility>

namespace libhvd {

// The message is for the user: what happened, to which tensor and ranks, and what to do.
struct Error {
  hvd_status status = HVD_ERROR_SYSTEM;
  std::string message;
};

template <class T>
using Result = common::Result<T, Error>;

inline Error fail(hvd_status status, std::string message) {
  return {status, std::move(message)};
}

// Returns an HVD_ERROR_SYSTEM with the text of an errno: "cannot open X: Permission denied".
Error fail_errno(std::string what, int errno_value);

// Runs body: () -> Result<T>, and returns its result. An exception becomes an HVD_ERROR_SYSTEM, so
// that the rank can agree on it with the others.
template <class Body>
auto attempt(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(HVD_ERROR_SYSTEM, "out of memory");
  } catch (const std::exception& exception) {
    return fail(HVD_ERROR_SYSTEM, exception.what());
  }
}

// Prefixes an error's message with where it happened: "CONTEXT: MESSAGE".
Error with_context(const std::string& context, Error error);

}  // namespace libhvd
