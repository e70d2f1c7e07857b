// Config files: any bytes give settings or an error that names the file; settings apply or are
// refused in one line.
#include "cli/config.hpp"
#include "expect.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = hvdrun::cli::parse_config(text, "file");
  if (!config) {
    FUZZ_EXPECT(config.error().message.rfind("file:", 0) == 0);
    FUZZ_EXPECT(config.error().message.find('\n') == std::string::npos);
    FUZZ_EXPECT(config.error().exit_code == hvdrun::kExitUsage);
    return 0;
  }
  hvdrun::JobSpec job;
  const auto applied = hvdrun::cli::apply_settings(config->settings, job);
  if (!applied) {
    FUZZ_EXPECT(applied.error().message.rfind("file:", 0) == 0);
    FUZZ_EXPECT(applied.error().message.find('\n') == std::string::npos);
  }
  return 0;
}
