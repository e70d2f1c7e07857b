// Compares our declaration of a function with that of a library's header.
#pragma once

#include <type_traits>

namespace libhvd::test {

// Returns whether a type of theirs is passed like one of ours: pointers as pointers, enums as int,
// structs as bytes of that size.
template <class Theirs, class Ours>
constexpr bool passed_alike() {
  if constexpr (std::is_pointer_v<Ours>) {
    return std::is_pointer_v<Theirs>;
  } else if constexpr (std::is_void_v<Ours>) {
    return std::is_void_v<Theirs>;
  } else {
    return !std::is_pointer_v<Theirs> && sizeof(Theirs) == sizeof(Ours) &&
           std::is_class_v<Theirs> == std::is_class_v<Ours>;
  }
}

template <class Theirs, class Ours>
struct Alike : std::false_type {};
template <class TheirResult, class... Theirs, class OurResult, class... Ours>
struct Alike<TheirResult (*)(Theirs...), OurResult (*)(Ours...)> {
  static constexpr bool same_number() {
    if constexpr (sizeof...(Theirs) == sizeof...(Ours)) {
      return passed_alike<TheirResult, OurResult>() && (passed_alike<Theirs, Ours>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = same_number();
};

}  // namespace libhvd::test
