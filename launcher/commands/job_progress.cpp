#include "commands/job_progress.hpp"

#include "common/file_content.hpp"
#include "common/text.hpp"
#include "slurm/job_state.hpp"
#include "slurm/output_path.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <ios>
#include <iterator>
#include <system_error>

namespace hvdrun {
namespace {

constexpr std::string_view kNote = "hvdrun: note: ";
constexpr std::array<std::string_view, 2> kFirstFields = {"epoch ", "step "};
constexpr std::uintmax_t kEnd = 64 * 1024;  // bytes of the file's end

}  // namespace

std::string last_progress(std::string_view text) {
  for (auto at = text.rfind(kNote); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : text.rfind(kNote, at - 1)) {
    const auto line = text.substr(at + kNote.size(), text.find('\n', at) - at - kNote.size());
    if (at > 0 && text[at - 1] != '\n') continue;  // a rank's own words
    if (std::ranges::any_of(kFirstFields, [&](auto field) { return line.starts_with(field); }))
      return escape(line);
  }
  return {};
}

std::string progress_of(const JobRecord& job) {
  if (phase_of(job.state) != JobPhase::running) return {};
  const auto paths = output_paths(job);
  const auto& path = paths.err.empty() ? paths.out : paths.err;
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error)) return {};
  const auto size = std::filesystem::file_size(path, error);
  if (error) return {};
  const auto content = read_content(path, kEnd, size - std::min(size, kEnd));
  return content ? last_progress(*content) : std::string();
}

}  // namespace hvdrun
