#include "transport/mpi_library.hpp"

#include "common/shared_library.hpp"
#include "common/system.hpp"
#include "common/variables.h"

#include <string>

#include <dlfcn.h>
#include <unistd.h>

namespace libhvd {
namespace {

constexpr const char* kName = "libhvd_mpi.so";
constexpr std::size_t kWhyBytes = 1024;

// Returns the plugin in the folder from which libhvd was loaded, or "" if it has none.
std::string beside_libhvd() {
  Dl_info own;
  if (::dladdr(reinterpret_cast<const void*>(&beside_libhvd), &own) == 0) return "";
  const std::string path = own.dli_fname;
  const std::string beside = path.substr(0, path.rfind('/') + 1) + kName;
  return beside != kName && ::access(beside.c_str(), F_OK) == 0 ? beside : "";
}

std::string find_plugin(const Environment& environment) {
  const auto named = environment(HVD_ENV_MPI_LIBRARY);
  if (named && !named->empty()) return *named;
  const std::string beside = beside_libhvd();
  return beside.empty() ? kName : beside;
}

// Calls `body`, a function of the plugin that writes what is wrong. Error: what it wrote.
template <class Body>
Result<void> ask(Body body) {
  const SignalsBlocked blocked;
  char why[kWhyBytes] = "";
  if (body(why, sizeof why) == 0) return {};
  return fail(HVD_ERROR_UNSUPPORTED, std::string(HVD_ENV_TRANSPORT) + "=mpi: " + why);
}

}  // namespace

// Opens it with RTLD_GLOBAL, because Open MPI's own plugins look for its symbols among those of the
// whole process.
Result<MpiLibrary> MpiLibrary::open(const Environment& environment) {
  const std::string path = find_plugin(environment);
  const auto refuse = [&](const std::string& why) {
    return fail(HVD_ERROR_UNSUPPORTED, std::string(HVD_ENV_TRANSPORT) + "=mpi: " + path + why);
  };
  const auto library = SharedLibrary::open(path, RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    return refuse(" cannot be opened (" + library.error() +
                  "). It is built if Open MPI (libopenmpi-dev) is there when libhvd is built, and "
                  "lies beside libhvd.so; " HVD_ENV_MPI_LIBRARY " may name it");
  }
  const hvd_mpi_plugin* (*entry)() = nullptr;
  if (!library->find(HVD_MPI_ENTRY, entry))
    return refuse(" is not libhvd's plugin for MPI: it has no " HVD_MPI_ENTRY);
  const hvd_mpi_plugin* const functions = entry();
  if (functions->abi != HVD_MPI_ABI) {
    return refuse(" is of another version of libhvd (" + std::to_string(functions->abi) +
                  " where this one needs " + std::to_string(HVD_MPI_ABI) +
                  "): take both from one build");
  }
  return MpiLibrary(functions);
}

Result<void> MpiLibrary::check(int rank, int size) const {
  return ask([&](char* why, std::size_t room) { return functions_->check(rank, size, why, room); });
}

Result<void> MpiLibrary::start(int rank, int size) const {
  return ask([&](char* why, std::size_t room) { return functions_->start(rank, size, why, room); });
}

Result<void> MpiLibrary::join() const {
  return ask([&](char* why, std::size_t room) { return functions_->join(why, room); });
}

Result<void> MpiLibrary::reserve_tags(int first, int count) const {
  if (functions_->reserve_tags(first, count) == 0) return {};
  return fail(HVD_ERROR_UNSUPPORTED,
              "MPI has no more tags: there were too many process sets, or calls of hvd_init");
}

}  // namespace libhvd
