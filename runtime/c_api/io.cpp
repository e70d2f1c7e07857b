// The C ABI of hvd/io.h.
#include "c_api/c_api.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"
#include "io/rank_path.hpp"
#include "io/share_outcome.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <hvd/io.h>

using libhvd::CallOptions;
using libhvd::Communicator;
using libhvd::fail;
using libhvd::Result;

// Any thread. Rank 0 of the present session has a file in `log`, the others have none.
struct hvd_log {
  hvd_log(std::string of, std::unique_ptr<libhvd::Log> first)
      : path(std::move(of)), log(std::move(first)) {}

  std::string path;
  std::mutex mutex;  // guards the following
  std::uint64_t generation = libhvd::last_generation();
  bool writes = hvd_rank() == 0;
  std::shared_ptr<libhvd::Log> log;

  // Returns the log for what this rank writes now. Error: it has become rank 0, and cannot open the
  // file.
  Result<std::shared_ptr<libhvd::Log>> find() {
    const std::lock_guard lock(mutex);
    const std::uint64_t now = libhvd::last_generation();
    const int rank = now == generation ? -1 : hvd_rank();
    if (rank < 0) return log;
    generation = now;
    if (writes == (rank == 0)) return log;
    writes = false;
    log = std::make_shared<libhvd::Log>();
    if (rank > 0) return log;
    HVD_TRY(libhvd::Log opened, libhvd::Log::open(path));
    log = std::make_shared<libhvd::Log>(std::move(opened));
    writes = true;
    return log;
  }
};

struct hvd_file {
  libhvd::AtomicFile file;
};

hvd_status hvd_on_root(hvd_body body, void* argument, int root, const hvd_options* options) {
  return libhvd::take_part("hvd_on_root", [=]() -> hvd_status {
    Result<void> own;
    if (body != nullptr && hvd_rank() == root) {
      own = libhvd::attempt([=]() -> Result<void> {
        const libhvd::RootBody inside;
        const char* text = "";
        const hvd_status status = body(argument, &text);
        if (status != HVD_OK) return fail(status, text == nullptr ? "" : text);
        return {};
      });
    }
    return libhvd::collective("hvd_on_root", libhvd::read_options(options),
                              [&](Communicator& communicator, CallOptions read) {
                                if (body == nullptr) read.fault = "hvd_on_root: a null pointer";
                                return libhvd::share_outcome(communicator, own, root, read);
                              });
  });
}

hvd_status hvd_log_open(const char* path, hvd_log** log, const hvd_options* options) {
  return libhvd::collective("hvd_log_open", libhvd::read_options(options),
                            [=](Communicator& communicator, CallOptions read) -> Result<void> {
                              if (path == nullptr || log == nullptr)
                                read.fault = "hvd_log_open: a null pointer";
                              auto opened = std::make_unique<libhvd::Log>();
                              Result<void> outcome;
                              if (communicator.rank() == 0 && read.fault.empty()) {
                                auto file =
                                    libhvd::attempt([=] { return libhvd::Log::open(path); });
                                if (file.ok()) {
                                  opened = std::make_unique<libhvd::Log>(std::move(*file));
                                } else {
                                  outcome = file.error();
                                }
                              }
                              HVD_CHECK(libhvd::share_outcome(communicator, outcome, 0, read));
                              *log = new hvd_log(path, std::move(opened));
                              return {};
                            });
}

hvd_status hvd_log_write(hvd_log* log, const char* text, size_t bytes) {
  return libhvd::guard("hvd_log_write", [=] {
    if (log == nullptr || (text == nullptr && bytes > 0))
      return libhvd::report(libhvd::null_pointer("hvd_log_write"));
    const auto now = log->find();
    return libhvd::report(now.ok() ? (*now)->write({text, bytes}) : Result<void>(now.error()));
  });
}

void hvd_log_close(hvd_log* log) {
  delete log;
}

hvd_status hvd_rank_path(const char* pattern, char* path, size_t size) {
  return libhvd::with_session("hvd_rank_path", [=](libhvd::Session& session) -> Result<void> {
    if (pattern == nullptr || path == nullptr) return libhvd::null_pointer("hvd_rank_path");
    HVD_TRY(const std::string expanded,
            libhvd::rank_path(pattern, session.numbers(), libhvd::process_environment()));
    if (expanded.size() >= size)
      return fail(HVD_ERROR_INVALID_ARGUMENT, "hvd_rank_path: \"" + expanded + "\" needs " +
                                                  std::to_string(expanded.size() + 1) + " bytes");
    std::memcpy(path, expanded.c_str(), expanded.size() + 1);
    return {};
  });
}

hvd_status hvd_file_create(const char* path, hvd_file** file) {
  return libhvd::guard("hvd_file_create", [=]() -> hvd_status {
    if (path == nullptr || file == nullptr)
      return libhvd::report(libhvd::null_pointer("hvd_file_create"));
    auto created = libhvd::AtomicFile::create(path);
    if (!created.ok()) return libhvd::report(created.error());
    *file = new hvd_file{std::move(*created)};
    return HVD_OK;
  });
}

hvd_status hvd_file_write(hvd_file* file, const void* data, size_t bytes) {
  return libhvd::guard("hvd_file_write", [=] {
    if (file == nullptr || (data == nullptr && bytes > 0))
      return libhvd::report(libhvd::null_pointer("hvd_file_write"));
    return libhvd::report(file->file.write(data, bytes));
  });
}

hvd_status hvd_file_commit(hvd_file* file) {
  return libhvd::guard("hvd_file_commit", [=] {
    if (file == nullptr) return libhvd::report(libhvd::null_pointer("hvd_file_commit"));
    const std::unique_ptr<hvd_file> last(file);
    return libhvd::report(last->file.commit());
  });
}

void hvd_file_discard(hvd_file* file) {
  delete file;
}
