#include "slurm/salloc_line.hpp"

namespace hvdrun {
namespace {

// Takes the prefix off the start of the text. Returns false if the text does not begin with it.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 10 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

SallocLine read_salloc_line(std::string_view line) {
  using Kind = SallocLine::Kind;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (!take(line, "salloc: ")) return {Kind::other, std::string(line)};
  auto rest = line;
  if (take(rest, "Pending job allocation ") && is_number(rest))
    return {Kind::pending, std::string(rest)};
  rest = line;
  if (take(rest, "Granted job allocation ") && is_number(rest))
    return {Kind::granted, std::string(rest)};
  if (line.find(" has been revoked") != std::string_view::npos)
    return {Kind::revoked, std::string(line)};
  if (line.starts_with("Relinquishing job allocation ")) return {Kind::given_back, {}};
  const bool is_routine =
      line.starts_with("Waiting for resource configuration") ||
      line.starts_with("Job aborted due to signal") ||
      (line.starts_with("Nodes ") && line.ends_with(" ready for job")) ||
      (line.starts_with("job ") && (line.ends_with(" queued and waiting for resources") ||
                                    line.ends_with(" has been allocated resources")));
  if (is_routine) return {Kind::routine, {}};
  take(line, "error: ");
  take(line, "fatal: ");
  return {Kind::other, std::string(line)};
}

}  // namespace hvdrun
