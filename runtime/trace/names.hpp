// Numbers for names, so that an event holds four bytes instead of a text. Number 0 is the empty
// name. A plain value, for one thread at a time.
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
  // Longer names are cut, which bounds memory. Names of tensors differ in their first bytes.
  static constexpr std::size_t kLongest = 255;

  // Returns nullopt for a name that add() was not called with.
  std::optional<std::uint32_t> find(std::string_view name) {
    if (name.empty()) return 0;
    name = name.substr(0, kLongest);
    // A training asks for the same names in the same order, step by step.
    for (const std::uint32_t guess : {last_, last_ + 1, 1u}) {
      if (guess < names_.size() && names_[guess] == name) return last_ = guess;
    }
    const auto known = numbers_.find(name);
    if (known == numbers_.end()) return std::nullopt;
    return last_ = known->second;
  }

  // Adds a name that find() does not find.
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

  // Returns all names, by number.
  const std::vector<std::string>& all() const { return names_; }
  // Returns all names, by number, and forgets them.
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
