#include "cli/check_build.hpp"

#include "base/version.hpp"
#include "cli/help.hpp"
#include "common/bundled_library.hpp"

#include <string>
#include <string_view>

namespace hvdrun {
namespace {

struct Library {
  const char* soname;
  std::string_view use;
};

constexpr Library kOptionalLibraries[] = {
    {"libpmix.so.2", "PMIx, brings the ranks together (see --pmix)"},
    {"libnvidia-ml.so.1", "NVML, describes the GPUs"},
    {"libssh.so.4", "logging in to other hosts without a process of ssh for each"},
    {"libcuda.so.1", "the CUDA driver"},
    {"libnccl.so.2", "NCCL, collectives between GPUs"},
};

std::string line(bool is_there, std::string_view text) {
  return (is_there ? "    [X] " : "    [ ] ") + std::string(text) + "\n";
}

}  // namespace

bool library_opens(const char* soname) {
  return open_own_or_bundled(soname).ok();
}

Kernels built_kernels() {
  return {.there = kHasKernels, .about = kAboutKernels};
}

std::string check_build_text(const std::function<bool(const char* soname)>& opens,
                             const Kernels& kernels) {
  std::string out = cli::version_text() + "\nAvailable Frameworks:\n";
  out += line(true, "any program: hvdrun is built against no framework");
  out += "\nAvailable Controllers:\n";
  out += line(opens("libpmix.so.2"), "PMIx");
  out += line(true, "environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, …)");
  out += "\nAvailable Tensor Operations (libhvd):\n";
  out += line(true, "shared memory, between the ranks of one host");
  out += line(true, "TCP, between hosts");
  out += line(opens("libmpi.so.40"), "Open MPI, between hosts (HVD_TRANSPORT=mpi)");
  out += line(opens("libnccl.so.2"), "NCCL, between GPUs");
  out += line(kernels.there, "CUDA kernels of libhvd's own: " + std::string(kernels.about));
  out += "\nLibraries found on this machine (all optional, opened at run time):\n";
  for (const auto& [soname, use] : kOptionalLibraries) {
    std::string text(soname);
    text.resize(20, ' ');
    out += line(opens(soname), text + std::string(use));
  }
  return out;
}

}  // namespace hvdrun
