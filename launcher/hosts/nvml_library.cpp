#include "hosts/nvml_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace hvdrun {

NvmlLibrary::~NvmlLibrary() {
  if (started_) nvmlShutdown();
  if (handle_ != nullptr) ::dlclose(handle_);
}

template <class Function>
bool NvmlLibrary::find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(::dlsym(handle_, name));
  return function != nullptr;
}

const char* NvmlLibrary::find_functions() {
  const char* missing = nullptr;
#define HVD_NVML_FIND(result, name, parameters) \
  if (!find(name, #name) && missing == nullptr) missing = #name;
  HVD_NVML_REQUIRED(HVD_NVML_FIND)
#undef HVD_NVML_FIND
#define HVD_NVML_FIND(result, name, parameters) find(name, #name);
  HVD_NVML_OPTIONAL(HVD_NVML_FIND)
#undef HVD_NVML_FIND
  return missing;
}

std::unique_ptr<NvmlLibrary> NvmlLibrary::open(const std::string& path, NvmlScan& scan) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    scan.problem = fmt::format("no NVIDIA driver ({} was not found)", path);
    return nullptr;
  }
  std::unique_ptr<NvmlLibrary> library(new NvmlLibrary(handle));
  if (const char* missing = library->find_functions()) {
    scan.problem = fmt::format("{} lacks {}: the NVIDIA driver is too old", path, missing);
    scan.broken = true;
    return nullptr;
  }
  if (const NvmlReturn status = library->nvmlInit_v2(); status != kNvmlSuccess) {
    scan.problem = fmt::format("NVML does not start: {}", library->nvmlErrorString(status));
    // A machine of the cluster that has the library but no GPU is an ordinary one.
    scan.broken = status != kNvmlDriverNotLoaded;
    return nullptr;
  }
  library->started_ = true;
  return library;
}

}  // namespace hvdrun
