// The C ABI of hvd.h: the collectives, each blocking and in the background.
//
// A blocking call of all ranks without a name goes through the session's communicator in the
// program's order. All other calls go through the engine of their process set.
//
// From hvd_allreduce to the segment: call() -> call_of_all() -> collective() (c_api.hpp) -> the
// function object of do_allreduce() -> Communicator::allreduce(). By name: call() -> negotiate() ->
// Engine::submit(), which runs the same function object later.
#include "c_api/c_api.hpp"
#include "collective/element.hpp"
#include "collective/group.hpp"
#include "gpu/device_collectives.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace {

using libhvd::AllreduceArguments;
using libhvd::AllreduceGroup;
using libhvd::CallOptions;
using libhvd::Communicator;
using libhvd::DeviceCall;
using libhvd::DeviceCalls;
using libhvd::DeviceCollectives;
using libhvd::Engine;
using libhvd::EqualGradients;
using libhvd::Error;
using libhvd::fail;
using libhvd::GradientBuffer;
using libhvd::guard;
using libhvd::MayAllocate;
using libhvd::Quick;
using libhvd::report;
using libhvd::Request;
using libhvd::Result;
using libhvd::Session;
using libhvd::SessionReader;

// A call with more is not a quick one (shown_collectives.hpp).
constexpr std::size_t kMostQuickElements = 1024;

// The parts of a session that negotiated calls need.
struct Background {
  std::shared_ptr<Engine> engine;  // of the process set; null after an error
  std::shared_ptr<DeviceCalls> device_calls;
};

// Fills in the parts for a process set. The caller holds Process::state. Error: the session has no
// such engine.
Result<void> find_parts(const char* what, Session& session, std::int32_t set,
                        Background& background) {
  auto found = session.engine(set);
  if (!found.ok()) return libhvd::with_context(what, found.error());
  background.engine = std::move(*found);
  background.device_calls = session.device_calls();
  return {};
}

// Finds the engine of a process set. Without one, `status` is the reason.
Background find_background(const char* what, std::int32_t set, hvd_status& status) {
  Background background;
  status = libhvd::with_session(
      what, [&](Session& session) { return find_parts(what, session, set, background); });
  return background;
}

Error no_handle(const char* what, hvd_handle handle) {
  return fail(HVD_ERROR_INVALID_ARGUMENT,
              std::string(what) + ": there is no handle " + std::to_string(handle));
}

// Fills in the parts for a handle. Error: its session is over, or has no such engine.
Result<void> find_parts_of(const char* what, hvd_handle handle, Background& background) {
  const SessionReader reader;
  Session* const session = reader.get();
  const libhvd::SessionHandles& handles = libhvd::process().session_handles;
  if (handle < 0 || (handle == 0 && session != nullptr)) return no_handle(what, handle);
  const auto place = handles.place_of(handle);
  if (session != nullptr && place.generation == handles.last())
    return find_parts(what, *session, place.process_set, background);
  if (handle == 0 || place.generation == 0) return libhvd::not_initialized(what);
  return fail(
      HVD_ERROR_NOT_INITIALIZED,
      std::string(what) + ": handle " + std::to_string(handle) + " is of generation " +
          std::to_string(place.generation) + ", which is over" +
          (session != nullptr ? "; this is generation " + std::to_string(handles.last()) : ""));
}

// Finds the engine of a handle. Without one, `status` is the reason.
Background find_background_of(const char* what, hvd_handle handle, hvd_status& status) {
  Background background;
  if (libhvd::process().forked) {
    status = report(libhvd::in_forked_child(what));
  } else {
    const Result<void> found = find_parts_of(what, handle, background);
    status = report(found);  // without the lock, which report() takes
  }
  return background;
}

// Returns "allreduce" for "hvd_allreduce_async".
std::string kind_of(std::string_view what) {
  what.remove_prefix(std::strlen("hvd_"));
  constexpr std::string_view kSuffix = "_async";
  if (what.ends_with(kSuffix)) what.remove_suffix(kSuffix.size());
  return std::string(what);
}

// Returns where the gradients of the call are, for a warning; nullopt if no rank can learn anything
// from them.
template <class Run>
std::optional<GradientBuffer> gradients_of(const Run& run,
                                           const std::optional<AllreduceArguments>& allreduce) {
  GradientBuffer found{};
  if (allreduce) {
    found = {allreduce->input, allreduce->count * libhvd::element_size(allreduce->type)};
  } else if constexpr (requires { run.gradients(); }) {
    found = run.gradients();
  }
  if (found.data == nullptr || found.bytes == 0) return std::nullopt;
  return found;
}

// Makes the request run on device memory, ordered with the caller's stream. An error here becomes
// CallOptions::fault, which is an error on all ranks.
template <class Run>
void put_on_device(Request& request, DeviceCalls& calls, const Run& run) {
  auto begun = calls.begin(request.options.place, request.options.process_set);
  if (!begun.ok()) {
    if (request.options.fault.empty()) request.options.fault = begun.error().message;
    return;
  }
  const std::shared_ptr<DeviceCall> call = *begun;
  request.options.place.device = call->device();
  request.run = [run, call](Communicator& communicator, const CallOptions& read) {
    DeviceCall* const only[] = {call.get()};
    return DeviceCall::run(only, read, [&](const CallOptions& on_stream) {
      return libhvd::run_where_buffers_lie(communicator, on_stream, run);
    });
  };
  request.device_call = call;
}

// Returns the request for the engine. `run`: see run_where_buffers_lie().
template <class Run>
Request make_request(const char* what, const CallOptions& options, const Background& background,
                     Run run, const std::optional<AllreduceArguments>& allreduce) {
  Request request;
  request.kind = kind_of(what);
  request.options = options;
  if (options.name != nullptr) request.name = options.name;
  request.options.name = nullptr;  // the caller may free its name
  request.priority = options.priority;
  request.allreduce = allreduce;
  if (options.gradients && options.name != nullptr && options.fault.empty())
    request.gradients = gradients_of(run, allreduce);
  request.run = [run](Communicator& communicator, const CallOptions& read) {
    return libhvd::run_where_buffers_lie(communicator, read, run);
  };
  if (options.place.on_device) put_on_device(request, *background.device_calls, run);
  return request;
}

// Submits the request to the engine.
Result<hvd_handle> submit_to(const Background& background, Request request) {
  const auto device_call = request.device_call;
  HVD_TRY(const hvd_handle handle, background.engine->submit(std::move(request)));
  if (device_call) background.device_calls->keep(handle, device_call);
  return handle;
}

// Waits for a collective, which the status page shows meanwhile. Returns its status. `what`: the
// function that the program called.
hvd_status wait_for(const char* what, const Background& background, hvd_handle handle) {
  Engine& engine = *background.engine;
  libhvd::ShownWait shown(engine, handle);
  const Result<void> outcome = background.device_calls->finish(handle, engine.wait(handle));
  shown.set_completed(outcome.ok());
  const hvd_status status = report(outcome);
  libhvd::standing_error.end_collective(what, status);
  return status;
}

// Waits for a collective, but at most `limit`. Sets *done, unless `done` is null, to whether it is
// done.
hvd_status wait_at_most(const char* what, hvd_handle handle, std::chrono::nanoseconds limit,
                        int* done) {
  hvd_status status = HVD_OK;
  const auto engine = find_background_of(what, handle, status).engine;
  if (!engine) return status;
  const auto answer = engine->wait_for(handle, limit);
  if (!answer.ok()) return report(libhvd::with_context(what, answer.error()));
  if (done != nullptr) *done = *answer ? 1 : 0;
  return HVD_OK;
}

// Submits a call to the engine of its process set. then: (const Background&, hvd_handle) ->
// hvd_status.
template <class Run, class Then>
hvd_status negotiate(const char* what, const CallOptions& options, Run run,
                     const std::optional<AllreduceArguments>& allreduce,
                     const Then& then) noexcept {
  return libhvd::take_part(what, [&]() -> hvd_status {
    if (libhvd::process().forked) return libhvd::refuse_in_child(what);
    if (libhvd::RootBody::running()) return report(libhvd::inside_root_body(what));
    libhvd::standing_error.begin_collective();
    hvd_status status = HVD_OK;
    const Background background = find_background(what, options.process_set, status);
    if (!background.engine) return status;
    const auto handle =
        submit_to(background, make_request(what, options, background, std::move(run), allreduce));
    if (!handle.ok()) return report(handle.error());
    return then(background, *handle);
  });
}

// Starts a call in the background. Every hvd_..._async() uses it. A call without a handle is
// submitted with a fault, because the other ranks wait for it.
template <class Run>
hvd_status submit(const char* what, const hvd_options* options, hvd_handle* handle, Run run,
                  const std::optional<AllreduceArguments>& allreduce = {},
                  MayAllocate may_allocate = MayAllocate::no) noexcept {
  CallOptions read = libhvd::read_options(options, may_allocate);
  if (handle != nullptr) {
    *handle = 0;
    return negotiate(what, read, std::move(run), allreduce,
                     [&](const Background&, hvd_handle submitted) -> hvd_status {
                       *handle = submitted;
                       return HVD_OK;
                     });
  }
  static const libhvd::Fault no_handle = "handle is null";
  if (read.fault.empty()) read.fault = no_handle;
  return negotiate(what, read, std::move(run), allreduce,
                   [&](const Background& background, hvd_handle submitted) {
                     background.engine->forget(submitted);
                     return report(fail(HVD_ERROR_INVALID_ARGUMENT,
                                        std::string(what) + ": " + std::string(read.fault.text())));
                   });
}

// Returns the options of a call that gives none. (To make them takes a part of a small call's
// time.)
const CallOptions& default_options() {
  static const auto* const options = new CallOptions;  // never destroyed, like Process
  return *options;
}

// Runs a blocking call of all ranks.
template <class Run>
hvd_status call_of_all(const char* what, const CallOptions& options, const Run& run,
                       Quick quick) noexcept {
  libhvd::standing_error.begin_collective();
  const hvd_status status = libhvd::collective(what, options, run, quick);
  libhvd::standing_error.end_collective(what, status);
  return status;
}

// Runs a blocking call. `elements`: about how many each rank gives; only how the status page shows
// the call depends on it.
template <class Run>
hvd_status call(const char* what, const hvd_options* options, std::size_t elements, const Run& run,
                const std::optional<AllreduceArguments>& allreduce = {},
                MayAllocate may_allocate = MayAllocate::no) noexcept {
  const Quick few = elements <= kMostQuickElements ? Quick::yes : Quick::no;
  if (options == nullptr) return call_of_all(what, default_options(), run, few);
  const CallOptions read = libhvd::read_options(options, may_allocate);
  if (read.name != nullptr || read.process_set != 0)
    return negotiate(what, read, run, allreduce,
                     [what](const Background& background, hvd_handle handle) {
                       return wait_for(what, background, handle);
                     });
  return call_of_all(what, read, run, read.place.on_device ? Quick::no : few);
}

// The do_... functions return what a collective does, for its blocking function and for the one in
// the background: (Communicator& or DeviceCollectives&, const CallOptions&) -> Result<void>.

auto do_allreduce(const AllreduceArguments& own) {
  return [=](auto& communicator, const CallOptions& read) {
    return communicator.allreduce(own.input, own.output, own.count, own.type, own.op, read);
  };
}

struct GroupedAllreduce {
  AllreduceGroup group;
  std::string fault = {};  // the error in the lists; "" if they are valid

  Result<void> operator()(Communicator& communicator, const CallOptions& read) const {
    return allreduce_group(communicator, group, with_fault(read));
  }
  Result<void> operator()(DeviceCollectives& device, const CallOptions& read) const {
    return allreduce_group(device, group, with_fault(read));
  }
  // Returns the smallest tensor that fills a sample, or else the largest. The middle of a large one
  // may be zero in each step: an embedding has rows that no batch uses.
  GradientBuffer gradients() const {
    const std::size_t element = libhvd::element_size(group.type);
    GradientBuffer best{};
    for (std::size_t i = 0; i < group.lengths.size(); ++i) {
      const std::size_t bytes = group.lengths[i] * element;
      const bool is_long = bytes >= EqualGradients::kSampleBytes;
      const bool best_is_long = best.bytes >= EqualGradients::kSampleBytes;
      if (best_is_long ? is_long && bytes < best.bytes : bytes > best.bytes)
        best = {group.inputs[i], bytes};
    }
    return best;
  }

 private:
  CallOptions with_fault(CallOptions options) const {
    if (options.fault.empty()) options.fault = fault;
    return options;
  }
};

auto do_grouped_allreduce(std::size_t tensors, const void* const* inputs, void* const* outputs,
                          const std::size_t* counts, hvd_type type, hvd_op op) {
  GroupedAllreduce call;
  call.group.type = type;
  call.group.op = op;
  if (tensors > 0 && (inputs == nullptr || outputs == nullptr || counts == nullptr)) {
    call.fault = "a list is null";
    return call;
  }
  call.group.inputs.assign(inputs, inputs + tensors);
  call.group.outputs.assign(outputs, outputs + tensors);
  call.group.lengths.assign(counts, counts + tensors);
  return call;
}

// The root of a broadcast, as a rank in the process set of the call.
struct Root {
  int place;
  std::optional<int> outside = {};  // its number in the job, if it is not in the set
};

// Finds the root in the process set. `root` is its rank among all ranks.
Root find_root(const hvd_options* options, int root) {
  if (libhvd::process().forked) return {root};  // the call itself returns the error
  const std::int32_t set = options != nullptr ? libhvd::read_options(options).process_set : 0;
  static const bool was_started_later = libhvd::is_newcomer(libhvd::process_environment());
  if (set == 0 && !was_started_later) return {root};
  const SessionReader reader;
  Session* const session = reader.get();
  if (session != nullptr && session->newcomer()) return {0};  // alone, whatever its number will be
  if (set == 0) return {root};
  if (session == nullptr || root < 0 || root >= session->topology().size) return {root};
  const auto ranks = session->ranks_of(set);
  if (!ranks.ok()) return {root};  // the call itself returns the error
  const auto found = std::find(ranks->begin(), ranks->end(), root);
  if (found != ranks->end()) return {static_cast<int>(found - ranks->begin())};
  return {root, session->communicator().number(root)};
}

auto do_broadcast(void* buffer, std::size_t count, hvd_type type, Root root) {
  return [=](auto& communicator, const CallOptions& read) {
    if (!root.outside || !read.fault.empty())
      return communicator.broadcast(buffer, count, type, root.place, read);
    CallOptions options = read;
    options.fault =
        "the root, rank " + std::to_string(*root.outside) + ", is not in the process set";
    return communicator.broadcast(buffer, count, type, root.place, options);
  };
}

auto do_allgather(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                  void* output, std::size_t output_rows, std::size_t* rows_by_rank) {
  return [=](auto& communicator, const CallOptions& read) {
    return communicator.allgather(input, rows, row_size, type, output, output_rows, rows_by_rank,
                                  read);
  };
}

struct DoReducescatter {
  const void* input;
  std::size_t rows;
  std::size_t row_size;
  hvd_type type;
  hvd_op op;
  void* output;

  Result<void> operator()(auto& communicator, const CallOptions& read) const {
    return communicator.reducescatter(input, rows, row_size, type, op, output, read);
  }
  GradientBuffer gradients() const { return {input, rows * row_size * libhvd::element_size(type)}; }
};

auto do_alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                 std::size_t row_size, hvd_type type, void* output, std::size_t output_rows,
                 std::size_t* received) {
  return [=](auto& communicator, const CallOptions& read) {
    return communicator.alltoall(input, splits, rows, row_size, type, output, output_rows, received,
                                 read);
  };
}

auto do_barrier() {
  return [](auto& communicator, const CallOptions& read) { return communicator.barrier(read); };
}

}  // namespace

hvd_status hvd_allreduce(const void* input, void* output, size_t count, hvd_type type, hvd_op op,
                         const hvd_options* options) {
  const AllreduceArguments own{input, output, count, type, op};
  return call("hvd_allreduce", options, count, do_allreduce(own), own);
}

hvd_status hvd_allreduce_async(const void* input, void* output, size_t count, hvd_type type,
                               hvd_op op, const hvd_options* options, hvd_handle* handle) {
  const AllreduceArguments own{input, output, count, type, op};
  return submit("hvd_allreduce_async", options, handle, do_allreduce(own), own);
}

hvd_status hvd_grouped_allreduce(size_t tensors, const void* const* inputs, void* const* outputs,
                                 const size_t* counts, hvd_type type, hvd_op op,
                                 const hvd_options* options) {
  const char* const what = "hvd_grouped_allreduce";
  return libhvd::take_part(what, [&]() -> hvd_status {
    return call(what, options, SIZE_MAX,
                do_grouped_allreduce(tensors, inputs, outputs, counts, type, op));
  });
}

hvd_status hvd_grouped_allreduce_async(size_t tensors, const void* const* inputs,
                                       void* const* outputs, const size_t* counts, hvd_type type,
                                       hvd_op op, const hvd_options* options, hvd_handle* handle) {
  const char* const what = "hvd_grouped_allreduce_async";
  return libhvd::take_part(what, [&]() -> hvd_status {
    return submit(what, options, handle,
                  do_grouped_allreduce(tensors, inputs, outputs, counts, type, op));
  });
}

hvd_status hvd_broadcast(void* buffer, size_t count, hvd_type type, int root,
                         const hvd_options* options) {
  const char* const what = "hvd_broadcast";
  return libhvd::take_part(what, [&] {
    return call(what, options, count, do_broadcast(buffer, count, type, find_root(options, root)));
  });
}

hvd_status hvd_broadcast_async(void* buffer, size_t count, hvd_type type, int root,
                               const hvd_options* options, hvd_handle* handle) {
  const char* const what = "hvd_broadcast_async";
  return libhvd::take_part(what, [&] {
    return submit(what, options, handle,
                  do_broadcast(buffer, count, type, find_root(options, root)));
  });
}

hvd_status hvd_allgather(const void* input, size_t rows, size_t row_size, hvd_type type,
                         void* output, size_t output_rows, size_t* rows_by_rank,
                         const hvd_options* options) {
  return call("hvd_allgather", options, rows * row_size,
              do_allgather(input, rows, row_size, type, output, output_rows, rows_by_rank), {},
              MayAllocate::yes);
}

hvd_status hvd_allgather_async(const void* input, size_t rows, size_t row_size, hvd_type type,
                               void* output, size_t output_rows, size_t* rows_by_rank,
                               const hvd_options* options, hvd_handle* handle) {
  return submit("hvd_allgather_async", options, handle,
                do_allgather(input, rows, row_size, type, output, output_rows, rows_by_rank), {},
                MayAllocate::yes);
}

hvd_status hvd_reducescatter(const void* input, size_t rows, size_t row_size, hvd_type type,
                             hvd_op op, void* output, const hvd_options* options) {
  return call("hvd_reducescatter", options, rows * row_size,
              DoReducescatter{input, rows, row_size, type, op, output});
}

hvd_status hvd_reducescatter_async(const void* input, size_t rows, size_t row_size, hvd_type type,
                                   hvd_op op, void* output, const hvd_options* options,
                                   hvd_handle* handle) {
  return submit("hvd_reducescatter_async", options, handle,
                DoReducescatter{input, rows, row_size, type, op, output});
}

hvd_status hvd_alltoall(const void* input, const size_t* splits, size_t rows, size_t row_size,
                        hvd_type type, void* output, size_t output_rows, size_t* received,
                        const hvd_options* options) {
  return call("hvd_alltoall", options, rows * row_size,
              do_alltoall(input, splits, rows, row_size, type, output, output_rows, received), {},
              MayAllocate::yes);
}

hvd_status hvd_alltoall_async(const void* input, const size_t* splits, size_t rows, size_t row_size,
                              hvd_type type, void* output, size_t output_rows, size_t* received,
                              const hvd_options* options, hvd_handle* handle) {
  return submit("hvd_alltoall_async", options, handle,
                do_alltoall(input, splits, rows, row_size, type, output, output_rows, received), {},
                MayAllocate::yes);
}

hvd_status hvd_barrier(const hvd_options* options) {
  return call("hvd_barrier", options, 0, do_barrier());
}

hvd_status hvd_barrier_async(const hvd_options* options, hvd_handle* handle) {
  return submit("hvd_barrier_async", options, handle, do_barrier());
}

void* hvd_call_allocator(void* allocator, size_t rows) {
  const auto& chosen = *static_cast<const hvd_allocator*>(allocator);
  void* memory = nullptr;
  chosen.allocate(chosen.context, rows, &memory);
  return memory;
}

hvd_status hvd_poll(hvd_handle handle, int* done) {
  return guard("hvd_poll", [=] { return wait_at_most("hvd_poll", handle, {}, done); });
}

hvd_status hvd_wait_for(hvd_handle handle, double seconds, int* done) {
  return guard("hvd_wait_for", [=]() -> hvd_status {
    if (std::isnan(seconds)) {
      return report(fail(HVD_ERROR_INVALID_ARGUMENT, "hvd_wait_for: the time is not a number"));
    }
    const double most = std::chrono::duration<double>(std::chrono::hours(24 * 365)).count();
    const std::chrono::duration<double> limit(std::clamp(seconds, 0.0, most));
    return wait_at_most("hvd_wait_for", handle,
                        std::chrono::duration_cast<std::chrono::nanoseconds>(limit), done);
  });
}

hvd_status hvd_wait(hvd_handle handle) {
  return guard("hvd_wait", [=]() -> hvd_status {
    hvd_status status = HVD_OK;
    const Background background = find_background_of("hvd_wait", handle, status);
    return background.engine ? wait_for("hvd_wait", background, handle) : status;
  });
}
