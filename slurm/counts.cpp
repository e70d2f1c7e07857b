#include "slurm/counts.hpp"

#include "base/host_list.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <unordered_map>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Reads a number of 0 or more. Returns nullopt if the text is anything else.
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

// Reads "4(x2)" or "3". Returns nullopt if the text is anything else, or a number is below 1.
std::optional<Repeated> read_repeated(std::string_view text) {
  constexpr std::string_view kOpen = "(x";
  const auto open = text.find(kOpen);
  const auto count = read_count(text.substr(0, open));
  if (!count || *count < 1) return std::nullopt;
  if (open == std::string_view::npos) return Repeated{*count, 1};
  if (text.back() != ')') return std::nullopt;
  text.remove_prefix(open + kOpen.size());
  text.remove_suffix(1);
  const auto times = read_count(text);
  if (!times || *times < 1) return std::nullopt;
  return Repeated{*count, *times};
}

// Returns the value of NAME in "NAME=VALUE NAME=VALUE"; nullopt if the line does not have it.
std::optional<std::string_view> field(std::string_view line, std::string_view name) {
  for (std::size_t begin = 0; begin < line.size();) {
    const auto word = line.substr(begin, line.find(' ', begin) - begin);
    if (word.starts_with(name) && word.substr(name.size()).starts_with('='))
      return word.substr(name.size() + 1);
    begin += word.size() + 1;
  }
  return std::nullopt;
}

// Removes the parentheses and what is in them, as in "gpu:a100:4(IDX:0,2-4),shard:8(0/8)".
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
    if (comma == std::string_view::npos) return counts;
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
    const auto count = read_count(colon == std::string_view::npos ? part : part.substr(colon + 1));
    if (!count || __builtin_add_overflow(total, *count, &total))
      return fail(fmt::format("{} is no number of GPUs such as 4 or a100:4", quote(text)),
                  kExitUsage);
    if (comma == std::string_view::npos) return total;
    rest.remove_prefix(comma + 1);
  }
}

std::optional<int> count_gpus_of_gres(std::string_view gres) {
  const std::string text = without_parentheses(gres);
  int total = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = rest.find(',');
    const auto one = rest.substr(0, comma);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
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
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.starts_with("Nodes=")) continue;
    const auto gres = field(line, "GRES");
    const auto count = gres ? count_gpus_of_gres(*gres) : std::nullopt;
    if (!count) return fail(fmt::format("cannot read a number of GPUs from {}", quote(line)));
    HVD_TRY(const auto names, expand_host_list(*field(line, "Nodes")));
    for (const auto& name : names) known[name] = *count;
  }
  std::vector<int> counts;
  counts.reserve(hosts.size());
  for (const auto& host : hosts) {
    const auto at = known.find(host);
    if (at == known.end()) return fail(fmt::format("there is no line about {}", host));
    counts.push_back(at->second);
  }
  return counts;
}

}  // namespace hvdrun
