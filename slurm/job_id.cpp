#include "slurm/job_id.hpp"

#include "common/text.hpp"

#include <charconv>
#include <optional>

namespace hvdrun {
namespace {

// Takes a number off the start of the text. Returns nullopt if it does not begin with one that fits
// 32 bits. SLURM's own limits are 26 bits for job ids (MaxJobId) and 4,000,001 for array tasks
// (MaxArraySize).
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// Takes `c` off the start of the text. Returns false if the text does not begin with it.
bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

struct TaskRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint32_t step = 1;
};

// Takes "4", "4-9" or "4-9:2" off the start of the text. Returns nullopt if it begins with none of
// them.
std::optional<TaskRange> take_range(std::string_view& text) {
  const auto first = take_number(text);
  if (!first) return std::nullopt;
  TaskRange range{*first, *first};
  if (take(text, '-')) {
    const auto last = take_number(text);
    if (!last || *last < *first) return std::nullopt;
    range.last = *last;
    if (take(text, ':')) {
      const auto step = take_number(text);
      if (!step || *step == 0) return std::nullopt;
      range.step = *step;
    }
  }
  return range;
}

// Returns whether the text can be in the brackets of "12_[…]". If so, sets `count` to the number of
// tasks.
bool is_task_list(std::string_view text, std::uint32_t& count) {
  count = 0;
  do {
    const auto range = take_range(text);
    if (!range) return false;
    count += (range->last - range->first) / range->step + 1;
  } while (take(text, ','));
  if (take(text, '%')) return take_number(text) && text.empty();
  return text.empty();
}

}  // namespace

Result<JobId> parse_job_id(std::string_view text) {
  const auto wrong = [text] {
    return fail(
        quote(text) + " is no job id; one is a number: 1234, or 1234_5 for a task of an array",
        kExitUsage);
  };
  JobId id{std::string(text)};
  const auto number = take_number(text);
  if (!number || *number == 0) {
    text = id.text;
    return wrong();
  }
  id.number = *number;
  bool fits = text.empty();
  if (take(text, '+')) {
    id.kind = JobId::Kind::het_part;
    fits = take_number(text) && text.empty();
  } else if (text.size() > 3 && text.starts_with("_[") && text.ends_with(']')) {
    id.kind = JobId::Kind::array_tasks;
    std::uint32_t count = 0;
    fits = is_task_list(text.substr(2, text.size() - 3), count);
  } else if (take(text, '_')) {
    id.kind = JobId::Kind::array_task;
    fits = take_number(text) && text.empty();
  }
  text = id.text;
  if (!fits) return wrong();
  return id;
}

bool belongs_to(std::string_view listed, std::uint32_t number) {
  const auto own = take_number(listed);
  return own == number && (listed.empty() || listed.front() == '_' || listed.front() == '+');
}

std::uint32_t count_tasks(std::string_view listed) {
  const auto open = listed.find("_[");
  if (open == std::string_view::npos) return 1;
  std::uint32_t count = 0;
  if (!listed.ends_with(']') || listed.size() < open + 4) return 0;
  return is_task_list(listed.substr(open + 2, listed.size() - open - 3), count) ? count : 0;
}

}  // namespace hvdrun
