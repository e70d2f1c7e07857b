// Parses command lines. The bytes, split at NUL, are the words. An error must be one line with an
// exit code of hvdrun. An accepted job must end with the program's words.
#include "cli/command_line.hpp"
#include "expect.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::vector<std::string> words_of(std::string_view bytes) {
  std::vector<std::string> words;
  while (!bytes.empty()) {
    const auto end = bytes.find('\0');
    words.emplace_back(bytes.substr(0, end));
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
  }
  return words;
}

// Returns whether the input may name a config file. Such inputs are skipped: a random name may open
// a device that never ends.
bool names_config_file(std::string_view bytes) {
  return bytes.find("config-file") != std::string_view::npos;
}

bool ends_with(const std::vector<std::string>& words, const std::vector<std::string>& tail) {
  return tail.size() <= words.size() && std::equal(tail.rbegin(), tail.rend(), words.rbegin());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (names_config_file(bytes)) return 0;
  const auto words = words_of(bytes);
  const hvdrun::Environment environment = {{"PATH", "/bin"}};
  const hvdrun::SystemPaths system_paths = {"/nonexistent/config.json", "/"};
  const auto invocation = hvdrun::parse_command_line(words, environment, system_paths);
  if (!invocation) {
    const auto& error = invocation.error();
    FUZZ_EXPECT(!error.message.empty() && error.message.find('\n') == std::string::npos);
    FUZZ_EXPECT(error.exit_code == hvdrun::kExitUsage || error.exit_code == hvdrun::kExitNotFound ||
                error.exit_code == hvdrun::kExitNotExecutable);
    return 0;
  }
  for (const auto& note : invocation->notes) FUZZ_EXPECT(note.find('\n') == std::string::npos);
  if (invocation->action == hvdrun::Invocation::Action::run) {
    const auto& spec = invocation->spec;
    FUZZ_EXPECT(!spec.command.empty() && ends_with(words, spec.command));
    FUZZ_EXPECT(spec.program.is_absolute());
    FUZZ_EXPECT(!spec.ranks || *spec.ranks > 0);
  }
  return 0;
}
