// The C ABI of hvd.h: collectives in the background.
#include "api/border.hpp"

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace {

using libhvd::AllreduceArguments;
using libhvd::CallOptions;
using libhvd::Communicator;
using libhvd::Done;
using libhvd::Engine;
using libhvd::fail;
using libhvd::guard;
using libhvd::Outcome;
using libhvd::report;
using libhvd::Request;
using libhvd::Session;

// The engine of the session; null, and the status says why.
std::shared_ptr<Engine> find_engine(const char* what, hvd_status& status) {
  std::shared_ptr<Engine> engine;
  status = libhvd::with_session(what, [&](Session& session) -> Outcome {
    HVD_TRY(engine, session.engine());
    return Done{};
  });
  return engine;
}

// `run`: (Communicator&, const CallOptions&) -> Outcome. `what`: "hvd_allreduce".
template <class Run>
hvd_status submit(const char* what, const hvd_options* options, hvd_handle* handle, Run run,
                  std::optional<AllreduceArguments> allreduce = {}) noexcept {
  return guard(what, [&]() -> hvd_status {
    if (handle == nullptr)
      return report(fail(HVD_ERROR_INVALID_ARGUMENT, std::string(what) + "_async: handle is null"));
    *handle = 0;
    if (libhvd::RootBody::running()) return report(libhvd::inside_root_body(what));
    hvd_status status = HVD_OK;
    const auto engine = find_engine(what, status);
    if (!engine) return status;
    Request request;
    request.kind = what + std::strlen("hvd_");
    request.options = libhvd::read_options(options);
    if (request.options.name != nullptr) request.name = request.options.name;
    request.options.name = nullptr;  // the caller's may go
    request.run = std::move(run);
    request.allreduce = allreduce;
    const auto submitted = engine->submit(std::move(request));
    if (!submitted.ok()) return report(submitted.error());
    *handle = *submitted;
    return HVD_OK;
  });
}

}  // namespace

hvd_status hvd_allreduce_async(const void* input, void* output, size_t count, hvd_type type,
                               hvd_op op, const hvd_options* options, hvd_handle* handle) {
  const auto run = [=](Communicator& communicator, const CallOptions& read) {
    return communicator.allreduce(input, output, count, type, op, read);
  };
  return submit("hvd_allreduce", options, handle, run,
                AllreduceArguments{input, output, count, type, op});
}

hvd_status hvd_broadcast_async(void* buffer, size_t count, hvd_type type, int root,
                               const hvd_options* options, hvd_handle* handle) {
  const auto run = [=](Communicator& communicator, const CallOptions& read) {
    return communicator.broadcast(buffer, count, type, root, read);
  };
  return submit("hvd_broadcast", options, handle, run);
}

hvd_status hvd_allgather_async(const void* input, size_t rows, size_t row_size, hvd_type type,
                               void* output, size_t output_rows, size_t* rows_by_rank,
                               const hvd_options* options, hvd_handle* handle) {
  const auto run = [=](Communicator& communicator, const CallOptions& read) {
    return communicator.allgather(input, rows, row_size, type, output, output_rows, rows_by_rank,
                                  read);
  };
  return submit("hvd_allgather", options, handle, run);
}

hvd_status hvd_reducescatter_async(const void* input, size_t rows, size_t row_size, hvd_type type,
                                   hvd_op op, void* output, const hvd_options* options,
                                   hvd_handle* handle) {
  const auto run = [=](Communicator& communicator, const CallOptions& read) {
    return communicator.reducescatter(input, rows, row_size, type, op, output, read);
  };
  return submit("hvd_reducescatter", options, handle, run);
}

hvd_status hvd_alltoall_async(const void* input, const size_t* splits, size_t rows, size_t row_size,
                              hvd_type type, void* output, size_t output_rows, size_t* received,
                              const hvd_options* options, hvd_handle* handle) {
  const auto run = [=](Communicator& communicator, const CallOptions& read) {
    return communicator.alltoall(input, splits, rows, row_size, type, output, output_rows, received,
                                 read);
  };
  return submit("hvd_alltoall", options, handle, run);
}

hvd_status hvd_barrier_async(const hvd_options* options, hvd_handle* handle) {
  const auto run = [](Communicator& communicator, const CallOptions& read) {
    return communicator.barrier(read);
  };
  return submit("hvd_barrier", options, handle, run);
}

hvd_status hvd_poll(hvd_handle handle, int* done) {
  return guard("hvd_poll", [=]() -> hvd_status {
    hvd_status status = HVD_OK;
    const auto engine = find_engine("hvd_poll", status);
    if (!engine) return status;
    const auto answer = engine->done(handle);
    if (!answer.ok()) return report(libhvd::with_context("hvd_poll", answer.error()));
    if (done != nullptr) *done = *answer ? 1 : 0;
    return HVD_OK;
  });
}

hvd_status hvd_wait(hvd_handle handle) {
  return guard("hvd_wait", [=]() -> hvd_status {
    hvd_status status = HVD_OK;
    const auto engine = find_engine("hvd_wait", status);
    if (!engine) return status;
    return report(engine->wait(handle));
  });
}
