#include "commands/hvdrun_name.hpp"

#include "cli/program.hpp"

#include <filesystem>
#include <system_error>

namespace hvdrun {

std::string hvdrun_name(const Environment& environment) {
  namespace fs = std::filesystem;
  constexpr auto kName = "hvdrun";
  std::error_code error;
  const auto self = fs::read_symlink("/proc/self/exe", error);
  if (error) return kName;
  const auto found = cli::find_program(kName, environment, {});
  if (!found || !fs::equivalent(*found, self, error) || error) return self.string();
  const auto folder = found->parent_path();
  const bool is_everywhere = folder == "/usr/bin" || folder == "/bin" || folder == "/usr/local/bin";
  return is_everywhere ? kName : self.string();
}

}  // namespace hvdrun
