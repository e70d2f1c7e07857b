#include "slurm/host_list.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr auto npos = std::string_view::npos;
constexpr std::string_view kDigits = "0123456789";

struct Number {
  std::uint64_t value = 0;
  std::string text;
};

// A name cut at the number that its neighbours differ in.
struct CutName {
  std::string before;
  std::string number;  // empty: the name has none
  std::string after;
};

// The last number before the first dot, so that n1.cluster2 is the first host of cluster2; in an
// IPv4 address the last. An IPv6 address stays as it is.
CutName cut(const std::string& name) {
  constexpr std::size_t kMostDigits = 18;
  const bool is_address = name.find_first_not_of("0123456789.") == npos;
  const auto end_of_label = is_address ? npos : name.find('.');
  const auto last = name.find_last_of(kDigits, end_of_label);
  if (last == npos || name.find(':') != npos) return {name, "", ""};
  const auto other = last == 0 ? npos : name.find_last_not_of(kDigits, last - 1);
  const auto first = other == npos ? 0 : other + 1;
  if (last + 1 - first > kMostDigits) return {name, "", ""};
  return {name.substr(0, first), name.substr(first, last + 1 - first), name.substr(last + 1)};
}

// All names that differ in their number only.
struct Family {
  CutName like;
  std::vector<Number> numbers;
};

std::string print_range(const Number& first, const Number& last) {
  return first.value == last.value ? first.text : first.text + "-" + last.text;
}

// "1-4,7": a range goes on while the next number is one more, written as the first one's width
// asks.
std::string print_numbers(std::vector<Number> numbers) {
  std::sort(numbers.begin(), numbers.end(), [](const Number& a, const Number& b) {
    return std::pair(a.value, a.text.size()) < std::pair(b.value, b.text.size());
  });
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end].value == numbers[end - 1].value + 1 &&
           numbers[end].text == fmt::format("{:0{}}", numbers[end].value, numbers[i].text.size()))
      ++end;
    text += (text.empty() ? "" : ",") + print_range(numbers[i], numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string print_family(const Family& family) {
  const auto& like = family.like;
  if (family.numbers.size() < 2) return like.before + like.number + like.after;
  return like.before + "[" + print_numbers(family.numbers) + "]" + like.after;
}

}  // namespace

std::string fold_hosts(const std::vector<std::string>& hosts) {
  std::vector<Family> families;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (const auto& host : hosts) {
    CutName name = cut(host);
    if (name.number.empty()) {
      families.push_back({std::move(name), {}});
      continue;
    }
    const auto [at, is_new] = known.emplace(std::pair(name.before, name.after), families.size());
    Number number{0, name.number};
    std::from_chars(number.text.data(), number.text.data() + number.text.size(), number.value);
    if (is_new) families.push_back({std::move(name), {}});
    families[at->second].numbers.push_back(std::move(number));
  }
  std::string text;
  for (const auto& family : families) text += (text.empty() ? "" : ",") + print_family(family);
  return text;
}

}  // namespace hvdrun
