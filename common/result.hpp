// Errors as values. A function that can fail returns a Result; HVD_TRY and HVD_CHECK return the
// error to the caller's caller. Launcher and runtime each have an Error type of their own
// (base/result.hpp in launcher/, base/error.hpp in runtime/).
#pragma once

#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace common {

// A value or an error.
template <class T, class E>
class Result {
 public:
  // The value T{}.
  Result() requires std::default_initializable<T> : state_(std::in_place_index<0>) {}

  // Takes anything that converts to a T. (enable_if, because clang-tidy 14 does not see the bounds
  // of a requires clause.)
  template <class U = T, class = std::enable_if_t<std::is_convertible_v<U&&, T> &&
                                                  !std::same_as<std::remove_cvref_t<U>, E> &&
                                                  !std::same_as<std::remove_cvref_t<U>, Result>>>
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}

  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Throw std::bad_variant_access unless ok().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Throw std::bad_variant_access if ok().
  E& error() & { return std::get<1>(state_); }
  const E& error() const& { return std::get<1>(state_); }
  E&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, E> state_;
};

// Success without a value, or an error.
template <class E>
class Result<void, E> {
 public:
  Result() = default;
  Result(E error) : error_(std::move(error)) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }

  // Undefined if ok().
  E& error() & { return *error_; }
  const E& error() const& { return *error_; }
  E&& error() && { return *std::move(error_); }

 private:
  std::optional<E> error_;
};

}  // namespace common

// Launcher and runtime use the names of `common` without its prefix.
namespace hvdrun {
using namespace common;
}
namespace libhvd {
using namespace common;
}

#define HVD_CONCAT_INNER(a, b) a##b
#define HVD_CONCAT(a, b) HVD_CONCAT_INNER(a, b)

// HVD_TRY(auto value, expression): declares value, or returns the expression's error.
#define HVD_TRY(declaration, expression)                      \
  auto HVD_CONCAT(hvd_try_, __LINE__) = (expression);         \
  if (!HVD_CONCAT(hvd_try_, __LINE__).ok())                   \
    return std::move(HVD_CONCAT(hvd_try_, __LINE__)).error(); \
  declaration = std::move(*HVD_CONCAT(hvd_try_, __LINE__))

// HVD_CHECK(expression): returns the expression's error, if it has one; ignores its value.
#define HVD_CHECK(expression)                                         \
  do {                                                                \
    if (auto hvd_check_result = (expression); !hvd_check_result.ok()) \
      return std::move(hvd_check_result).error();                     \
  } while (false)
