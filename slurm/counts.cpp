#include "slurm/counts.hpp"

#include "base/quote.hpp"
#include "slurm/host_list.hpp"

#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr auto npos = std::string_view::npos;

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

}  // namespace hvdrun
