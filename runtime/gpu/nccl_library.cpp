#include "gpu/nccl_library.hpp"

#include "common/shared_library.hpp"
#include "common/variables.h"
#include "gpu/library_search.hpp"

#include <string>

namespace libhvd {

Result<NcclLibrary> NcclLibrary::load(const Environment& environment) {
  constexpr const char* kSonames[] = {"libnccl.so.2"};
  HVD_TRY(const SharedLibrary library, open_library(environment, HVD_ENV_NCCL_LIBRARY, kSonames));
  NcclLibrary nccl;
#define HVD_NCCL_LOAD(name, parameters) \
  if (!library.find(#name, nccl.name)) return lacks_function(#name);
  HVD_NCCL_FUNCTIONS(HVD_NCCL_LOAD)
  HVD_NCCL_LOAD(ncclGetErrorString, )
  HVD_NCCL_LOAD(ncclGetLastError, )
#undef HVD_NCCL_LOAD
  const NcclStatus status = nccl.ncclGetVersion(&nccl.version);
  if (status != NcclStatus::success) return nccl.describe(status, "ncclGetVersion", nullptr);
  if (nccl.version < kNcclLeastVersion) {
    return fail(HVD_ERROR_UNSUPPORTED, "NCCL is " + nccl_version_text(nccl.version) +
                                           "; it must be " + nccl_version_text(kNcclLeastVersion) +
                                           " or later");
  }
  return nccl;
}

Error NcclLibrary::describe(NcclStatus status, const char* what, NcclComm comm) const {
  std::string text = std::string(what) + ": " + ncclGetErrorString(status);
  const char* const details = ncclGetLastError(comm);
  if (details != nullptr && *details != '\0') text += std::string(": ") + details;
  return fail(status == NcclStatus::remote_error ? HVD_ERROR_PEER : HVD_ERROR_SYSTEM, text);
}

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
         std::to_string(version % 100);
}

}  // namespace libhvd
