#include "gpus/nvidia/nvml_library.hpp"

#include <fmt/format.h>

namespace hvdrun {

NvmlLibrary::~NvmlLibrary() {
  if (started_) nvmlShutdown();
  library_.close();
}

const char* NvmlLibrary::find_functions() {
  const char* missing = nullptr;
#define HVD_NVML_FIND(result, name, parameters) \
  if (!library_.find(#name, name) && missing == nullptr) missing = #name;
  HVD_NVML_REQUIRED(HVD_NVML_FIND)
#undef HVD_NVML_FIND
#define HVD_NVML_FIND(result, name, parameters) static_cast<void>(library_.find(#name, name));
  HVD_NVML_OPTIONAL(HVD_NVML_FIND)
#undef HVD_NVML_FIND
  return missing;
}

std::unique_ptr<NvmlLibrary> NvmlLibrary::open(const std::string& path, NvmlFailure& failure) {
  const auto opened = SharedLibrary::open(path);
  if (!opened) {
    failure.problem = fmt::format("no NVIDIA driver ({} was not found)", path);
    return nullptr;
  }
  std::unique_ptr<NvmlLibrary> library(new NvmlLibrary(*opened));
  if (const char* missing = library->find_functions()) {
    failure.problem = fmt::format("{} lacks {}: the NVIDIA driver is too old", path, missing);
    failure.broken = true;
    return nullptr;
  }
  if (const NvmlReturn status = library->nvmlInit_v2(); status != kNvmlSuccess) {
    failure.problem = fmt::format("NVML does not start: {}", library->nvmlErrorString(status));
    // A machine of the cluster that has the library but no GPU is an ordinary one.
    failure.broken = status != kNvmlDriverNotLoaded;
    return nullptr;
  }
  library->started_ = true;
  return library;
}

}  // namespace hvdrun
