#include "remote/ssh_library.hpp"

#include "base/shared_library.hpp"

namespace hvdrun {
namespace {

Result<SshLibrary> load() {
  HVD_TRY(const auto opened, SharedLibrary::open("libssh.so.4"));
  SshLibrary library;
#define HVDRUN_SSH_LOAD(name) HVD_CHECK(opened.find(#name, library.name));
  HVDRUN_SSH_SYMBOLS(HVDRUN_SSH_LOAD)
#undef HVDRUN_SSH_LOAD
  return library;
}

const Result<SshLibrary>& the_library() {
  static const Result<SshLibrary> library = load();
  return library;
}

}  // namespace

Result<void> open_libssh() {
  if (!the_library()) return tl::unexpected(the_library().error());
  return {};
}

const SshLibrary& libssh() {
  return *the_library();
}

}  // namespace hvdrun
