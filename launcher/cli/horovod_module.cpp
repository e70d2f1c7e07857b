#include "cli/horovod_module.hpp"

#include "base/own_files.hpp"

#include <system_error>

namespace hvdrun::cli {

namespace fs = std::filesystem;

Result<PythonFolders> find_horovod_module(const fs::path& share, const fs::path& source) {
  constexpr const char* kModule = "horovod/__init__.py";
  const auto installed = share / "hvdrun/horovod";
  const auto checkout = source / "hvd-horovod/src";
  std::error_code error;
  if (fs::exists(installed / kModule, error)) {
    auto hvd = share / "hvd/python";
    return PythonFolders{installed, fs::is_directory(hvd, error) ? std::move(hvd) : fs::path()};
  }
  if (fs::exists(checkout / kModule, error)) return PythonFolders{checkout, source};
  return fail("--horovod: the module horovod is neither in " + installed.string() + " nor in " +
                  checkout.string() + "; install hvdrun again",
              kExitLauncher);
}

Result<PythonFolders> find_horovod_module() {
  return find_horovod_module(own_share_folder(), HVDRUN_SOURCE_PYTHON);
}

}  // namespace hvdrun::cli
