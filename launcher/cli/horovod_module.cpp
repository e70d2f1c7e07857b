#include "cli/horovod_module.hpp"

#include "base/files.hpp"

#include <system_error>
#include <utility>

namespace hvdrun::cli {

namespace fs = std::filesystem;

Result<PythonFolders> find_horovod_module(const fs::path& share) {
  auto horovod = share / "hvdrun/horovod";
  auto hvd = share / "hvd/python";
  std::error_code error;
  if (!fs::exists(horovod / "horovod/__init__.py", error))
    return fail("--horovod: the module horovod is not in " + horovod.string() +
                    "; build or install hvdrun again",
                kExitLauncher);
  return PythonFolders{std::move(horovod),
                       fs::is_directory(hvd, error) ? std::move(hvd) : fs::path()};
}

Result<PythonFolders> find_horovod_module() {
  return find_horovod_module(own_share_folder());
}

}  // namespace hvdrun::cli
