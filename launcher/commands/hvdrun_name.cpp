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
  return found && fs::equivalent(*found, self, error) && !error ? kName : self.string();
}

}  // namespace hvdrun
