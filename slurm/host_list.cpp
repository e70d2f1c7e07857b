#include "slurm/host_list.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

namespace {

constexpr auto npos = std::string_view::npos;

// "08-11": width 2. One number is a range of one.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;

  std::uint64_t size() const { return last - first + 1; }
};

struct Bracket {
  std::string_view before;  // the text between the last bracket and this one
  std::vector<Range> ranges;
  std::uint64_t size = 0;
};

// One entry of a list: text and brackets in turn, and what comes after them.
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
  constexpr std::size_t kMostDigits = 18;  // what surely fits
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
    return usage_error(fmt::format("{} counts backwards at {}", quote(whole), quote(text)));
  return range;
}

Result<Bracket> read_bracket(std::string_view before, std::string_view inside,
                             std::string_view whole) {
  Bracket bracket{before, {}, 0};
  while (true) {
    const auto comma = inside.find(',');
    HVD_TRY(const Range range, read_range(inside.substr(0, comma), whole));
    bracket.ranges.push_back(range);
    // Both numbers are below 10^18, so that this cannot overflow before the check stops it.
    bracket.size += range.size();
    if (bracket.size > kMaxHosts) return bracket;  // too many; the caller says so
    if (comma == npos) return bracket;
    inside.remove_prefix(comma + 1);
  }
}

Error too_many(std::string_view text) {
  return usage_error(fmt::format("{} names more than {} hosts, the most that hvdrun takes",
                                 quote(text), kMaxHosts));
}

// The longest name that the pattern makes.
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
  return usage_error(fmt::format("{} has {}, which no host's name has", quote(whole),
                                 quote(std::string_view(&*odd, 1))));
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

// All numbers of a bracket, as written.
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
    // An odometer whose wheels turn in scontrol's order: the last one, then from the first on.
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

std::optional<int> read_count(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

struct Repeated {
  int count = 0;
  int times = 1;
};

// "4(x2)" or "3".
std::optional<Repeated> read_repeated(std::string_view text) {
  constexpr std::string_view kOpen = "(x";
  const auto open = text.find(kOpen);
  const auto count = read_count(text.substr(0, open));
  if (!count || *count < 1) return std::nullopt;
  if (open == npos) return Repeated{*count, 1};
  if (text.back() != ')') return std::nullopt;
  text.remove_prefix(open + kOpen.size());
  text.remove_suffix(1);
  const auto times = read_count(text);
  if (!times || *times < 1) return std::nullopt;
  return Repeated{*count, *times};
}

// The value of NAME in "NAME=VALUE NAME=VALUE".
std::optional<std::string_view> field(std::string_view line, std::string_view name) {
  for (std::size_t begin = 0; begin < line.size();) {
    const auto word = line.substr(begin, line.find(' ', begin) - begin);
    if (word.starts_with(name) && word.substr(name.size()).starts_with('='))
      return word.substr(name.size() + 1);
    begin += word.size() + 1;
  }
  return std::nullopt;
}

// "gpu:a100:4(IDX:0,2-4),shard:8(0/8)" without what is in parentheses.
std::string without_parentheses(std::string_view text) {
  std::string kept;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) kept += c;
    if (c == ')' && depth > 0) --depth;
  }
  return kept;
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

Result<std::vector<int>> expand_counts(std::string_view text) {
  std::vector<int> counts;
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const auto part = rest.substr(0, comma);
    const auto repeated = read_repeated(part);
    if (!repeated)
      return fail(fmt::format("{} is no list of counts such as 4(x2),3", quote(text)), kExitUsage);
    if (static_cast<std::size_t>(repeated->times) > kMaxHosts - counts.size())
      return fail(fmt::format("{} counts for more than {} hosts, the most that hvdrun takes",
                              quote(text), kMaxHosts),
                  kExitUsage);
    counts.insert(counts.end(), static_cast<std::size_t>(repeated->times), repeated->count);
    if (comma == npos) return counts;
    rest.remove_prefix(comma + 1);
  }
}

Result<int> count_gpus(std::string_view text) {
  int total = 0;
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const auto part = rest.substr(0, comma);
    const auto colon = part.rfind(':');
    const auto count = read_count(colon == npos ? part : part.substr(colon + 1));
    if (!count || __builtin_add_overflow(total, *count, &total))
      return fail(fmt::format("{} is no number of GPUs such as 4 or a100:4", quote(text)),
                  kExitUsage);
    if (comma == npos) return total;
    rest.remove_prefix(comma + 1);
  }
}

std::optional<int> count_gpus_of_gres(std::string_view gres) {
  const std::string text = without_parentheses(gres);
  int total = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = rest.find(',');
    const auto one = rest.substr(0, comma);
    rest.remove_prefix(comma == npos ? rest.size() : comma + 1);
    if (!one.starts_with("gpu:")) continue;
    const auto count = read_count(one.substr(one.rfind(':') + 1));
    if (!count || __builtin_add_overflow(total, *count, &total)) return std::nullopt;
  }
  return total;
}

Result<std::vector<int>> count_gpus_by_host(std::string_view description,
                                            const std::vector<std::string>& hosts) {
  std::unordered_map<std::string, int> known;
  for (std::string_view rest = description; !rest.empty();) {
    const auto newline = rest.find('\n');
    auto line = rest.substr(0, newline);
    rest.remove_prefix(newline == npos ? rest.size() : newline + 1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.starts_with("Nodes=")) continue;
    const auto gres = field(line, "GRES");
    const auto count = gres ? count_gpus_of_gres(*gres) : std::nullopt;
    if (!count) return fail(fmt::format("{} does not tell a number of GPUs", quote(line)));
    HVD_TRY(const auto names, expand_host_list(*field(line, "Nodes")));
    for (const auto& name : names) known[name] = *count;
  }
  std::vector<int> counts;
  counts.reserve(hosts.size());
  for (const auto& host : hosts) {
    const auto at = known.find(host);
    if (at == known.end()) return fail(fmt::format("nothing is said of {}", host));
    counts.push_back(at->second);
  }
  return counts;
}

}  // namespace hvdrun
