// Names by number, so that an event need not carry them. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace libhvd {

class Names {
 public:
  // Longer ones are cut: what tells tensors apart stands in the first bytes, and memory is bounded.
  static constexpr std::size_t kLongest = 255;

  // 0 is "".
  std::optional<std::uint32_t> find(std::string_view name) {
    if (name.empty()) return 0;
    name = name.substr(0, kLongest);
    // A training asks for the same ones in the same order, step by step.
    for (const std::uint32_t guess : {last_, last_ + 1, 1u}) {
      if (guess < names_.size() && names_[guess] == name) return last_ = guess;
    }
    const auto known = numbers_.find(name);
    if (known == numbers_.end()) return std::nullopt;
    return last_ = known->second;
  }

  // Only what find() does not.
  std::uint32_t add(std::string_view name) {
    const auto number = static_cast<std::uint32_t>(names_.size());
    names_.emplace_back(name.substr(0, kLongest));
    numbers_.emplace(names_.back(), number);
    return number;
  }

  std::uint32_t number_of(std::string_view name) {
    const auto known = find(name);
    return known ? *known : add(name);
  }

  // All, by number; afterwards there are none.
  std::vector<std::string> take() {
    numbers_.clear();
    last_ = 0;
    return std::exchange(names_, {""});
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>()(name);
    }
  };

  std::vector<std::string> names_{""};
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::uint32_t last_ = 0;  // that was asked for
};

}  // namespace libhvd
