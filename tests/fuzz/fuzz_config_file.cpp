// Parses any bytes as a config file, in JSON and in horovodrun's YAML. An error must be one line
// that names the file, also when a setting is applied.
#include "cli/config.hpp"
#include "expect.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

// Parses and applies a file of that name with this text.
void try_file(const std::string& name, std::string_view text) {
  const auto is_one_line_of_the_file = [&](const std::string& message) {
    return message.rfind(name + ":", 0) == 0 && message.find('\n') == std::string::npos;
  };
  const auto config = hvdrun::cli::parse_config(text, name);
  if (!config) {
    FUZZ_EXPECT(is_one_line_of_the_file(config.error().message));
    FUZZ_EXPECT(config.error().exit_code == hvdrun::kExitUsage);
    return;
  }
  hvdrun::JobSpec job;
  const auto applied = hvdrun::cli::apply_settings(config->settings, job);
  if (!applied) FUZZ_EXPECT(is_one_line_of_the_file(applied.error().message));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_file("file", text);
  try_file("file.yaml", text);
  return 0;
}
