#include "commands/job_name.hpp"

#include "slurm/job_record.hpp"
#include "slurm/quoting.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>

namespace hvdrun {
std::string job_comment(const std::vector<std::string>& program) {
  constexpr std::size_t kLongest = 200;
  std::string text(kCommentPrefix);
  for (const auto& word : program) {
    if (text.size() > kCommentPrefix.size()) text += ' ';
    text += quote_for_comment(word);
  }
  if (text.size() <= kLongest) return text;
  text.resize(kLongest);
  // Drops a character of UTF-8 that may be cut in the middle.
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  if (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0) text.pop_back();
  return text + " ...";
}

std::string job_name_of(const std::vector<std::string>& program) {
  if (program.empty()) return {};
  const auto name_of = [](const std::string& word) {
    return std::filesystem::path(word).filename().string();
  };
  auto name = name_of(program.front());
  const bool is_interpreter = name.substr(0, 6) == "python" || name == "bash" || name == "sh" ||
                              name == "julia" || name == "Rscript";
  if (!is_interpreter) return name;
  const auto script = std::find_if(program.begin() + 1, program.end(), [](const auto& word) {
    return word.substr(0, 1) != "-" || word == "-c";
  });
  return script == program.end() || *script == "-c" ? name : name_of(*script);
}

}  // namespace hvdrun
