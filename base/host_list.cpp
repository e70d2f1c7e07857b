#include "base/host_list.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr auto npos = std::string_view::npos;

// The numbers of "08-11", whose width is 2. A single number is a range of one.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;

  std::uint64_t size() const { return last - first + 1; }
};

struct Bracket {
  std::string_view before;  // the text between the previous bracket and this one
  std::vector<Range> ranges;
  std::uint64_t size = 0;
};

// One entry of a list: brackets, each with the text before it, and the text after the last one.
struct Pattern {
  std::vector<Bracket> brackets;
  std::string_view after;
  std::uint64_t size = 1;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

Result<std::uint64_t> read_number(std::string_view text, std::string_view whole) {
  constexpr std::size_t kMostDigits = 18;  // below 10^18, which fits std::uint64_t
  const bool is_number = !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
  if (!is_number)
    return usage_error(fmt::format("{} has {} in brackets where numbers such as 1-4,7 are wanted",
                                   quote(whole), quote(text)));
  const auto zeros = std::min(text.find_first_not_of('0'), text.size());
  if (text.size() - zeros > kMostDigits || text.size() > kLongestHostName)
    return usage_error(fmt::format("{} has a number that is too long", quote(whole)));
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Result<Range> read_range(std::string_view text, std::string_view whole) {
  const auto dash = text.find('-');
  Range range;
  range.width = std::min(dash, text.size());
  HVD_TRY(range.first, read_number(text.substr(0, dash), whole));
  range.last = range.first;
  if (dash != npos) {
    HVD_TRY(range.last, read_number(text.substr(dash + 1), whole));
  }
  if (range.last < range.first)
    return usage_error(fmt::format("{} runs backwards at {}", quote(whole), quote(text)));
  return range;
}

Result<Bracket> read_bracket(std::string_view before, std::string_view inside,
                             std::string_view whole) {
  Bracket bracket{before, {}, 0};
  while (true) {
    const auto comma = inside.find(',');
    HVD_TRY(const Range range, read_range(inside.substr(0, comma), whole));
    bracket.ranges.push_back(range);
    // Cannot overflow before the check below returns, because both numbers are below 10^18.
    bracket.size += range.size();
    if (bracket.size > kMaxHosts) return bracket;  // too many: the caller returns the error
    if (comma == npos) return bracket;
    inside.remove_prefix(comma + 1);
  }
}

Error too_many(std::string_view text) {
  return usage_error(fmt::format("{} names more than {} hosts, the most that hvdrun takes",
                                 quote(text), kMaxHosts));
}

// Returns the length of the longest name that the pattern makes, in bytes.
std::size_t longest_name(const Pattern& pattern) {
  std::size_t length = pattern.after.size();
  for (const auto& bracket : pattern.brackets) {
    std::size_t widest = 0;
    for (const auto& range : bracket.ranges)
      widest = std::max({widest, range.width, std::to_string(range.last).size()});
    length += bracket.before.size() + widest;
  }
  return length;
}

Result<void> check_characters(std::string_view text, std::string_view whole) {
  const auto odd = std::find_if_not(text.begin(), text.end(), is_name_character);
  if (odd == text.end()) return {};
  if (*odd == '[') return usage_error(fmt::format("{} has a \"[\" without \"]\"", quote(whole)));
  if (*odd == ']') return usage_error(fmt::format("{} has a \"]\" without \"[\"", quote(whole)));
  // The whole character: a name may be UTF-8.
  const auto end = std::find_if_not(
      odd + 1, text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; });
  return usage_error(fmt::format("{} has {}, which no host's name has", quote(whole),
                                 quote(std::string_view(odd, end))));
}

Result<Pattern> read_pattern(std::string_view text) {
  if (text.empty()) return usage_error("there is a host without a name in the list");
  if (text.front() == '-')
    return usage_error(fmt::format("{} is no host's name: it begins with \"-\"", quote(text)));
  Pattern pattern;
  std::string_view rest = text;
  while (true) {
    const auto open = rest.find('[');
    const auto close = rest.find(']', open == npos ? 0 : open);
    if (open == npos || close == npos) break;
    HVD_CHECK(check_characters(rest.substr(0, open), text));
    HVD_TRY(auto bracket,
            read_bracket(rest.substr(0, open), rest.substr(open + 1, close - open - 1), text));
    if (bracket.size > kMaxHosts) return too_many(text);
    pattern.size *= bracket.size;
    if (pattern.size > kMaxHosts) return too_many(text);
    pattern.brackets.push_back(std::move(bracket));
    rest.remove_prefix(close + 1);
  }
  HVD_CHECK(check_characters(rest, text));
  pattern.after = rest;
  if (longest_name(pattern) > kLongestHostName)
    return usage_error(
        fmt::format("{} makes names longer than {} characters, the most that a host's "
                    "name may have",
                    quote(text), kLongestHostName));
  return pattern;
}

// Returns all numbers of a bracket, as they are written in names.
std::vector<std::string> list_numbers(const Bracket& bracket) {
  std::vector<std::string> numbers;
  numbers.reserve(bracket.size);
  for (const auto& range : bracket.ranges)
    for (auto value = range.first; value <= range.last; ++value)
      numbers.push_back(fmt::format("{:0{}}", value, range.width));
  return numbers;
}

void append_names(const Pattern& pattern, std::vector<std::string>& names) {
  const std::size_t brackets = pattern.brackets.size();
  std::vector<std::vector<std::string>> numbers;
  for (const auto& bracket : pattern.brackets) numbers.push_back(list_numbers(bracket));
  std::vector<std::size_t> positions(brackets, 0);
  for (std::uint64_t made = 0; made < pattern.size; ++made) {
    std::string name;
    for (std::size_t i = 0; i < brackets; ++i)
      name.append(pattern.brackets[i].before).append(numbers[i][positions[i]]);
    names.push_back(name.append(pattern.after));
    // Advances like an odometer whose wheels turn in scontrol's order: the last one, then the
    // first, the second, …
    for (std::size_t turn = 0; turn < brackets; ++turn) {
      const std::size_t wheel = turn == 0 ? brackets - 1 : turn - 1;
      if (++positions[wheel] < numbers[wheel].size()) break;
      positions[wheel] = 0;
    }
  }
}

constexpr std::string_view kDigits = "0123456789";

struct Number {
  std::uint64_t value = 0;
  std::string text;
};

// A name, cut at the number in which it differs from its neighbours.
struct CutName {
  std::string before;
  std::string number;  // empty: the name has none
  std::string after;
};

// Cuts a name at the last number before its first dot, so that n1.cluster2 is host 1 of cluster2.
// An IPv4 address is cut at its last number. An IPv6 address is not cut, nor is a name whose number
// has more than 18 digits.
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

// Names that differ in their number only.
struct Family {
  CutName like;
  std::vector<Number> numbers;
};

std::string print_range(const Number& first, const Number& last) {
  return first.value == last.value ? first.text : first.text + "-" + last.text;
}

// Returns sorted ranges, such as "1-4,7". A range continues while the next number is one more and
// is written with the width of the range's first number.
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

bool is_host_name(std::string_view text) {
  return !text.empty() && text.front() != '-' && text.size() <= kLongestHostName &&
         std::all_of(text.begin(), text.end(), is_name_character);
}

std::vector<std::string_view> split_host_list(std::string_view text) {
  std::vector<std::string_view> entries;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] != ',' || inside) continue;
    entries.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  entries.push_back(text.substr(begin));
  return entries;
}

Result<std::vector<std::string>> expand_host_list(std::string_view text) {
  std::vector<Pattern> patterns;
  std::uint64_t size = 0;
  for (const auto entry : split_host_list(text)) {
    HVD_TRY(auto pattern, read_pattern(entry));
    size += pattern.size;
    if (size > kMaxHosts) return too_many(text);
    patterns.push_back(std::move(pattern));
  }
  std::vector<std::string> names;
  names.reserve(size);
  for (const auto& pattern : patterns) append_names(pattern, names);
  return names;
}

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

std::vector<std::string> expand_host_lists(const std::vector<std::string>& lists) {
  std::vector<std::string> names;
  for (const auto& list : lists)
    if (const auto hosts = expand_host_list(list))
      names.insert(names.end(), hosts->begin(), hosts->end());
  return names;
}

}  // namespace hvdrun
