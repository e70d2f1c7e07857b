#include "c_api/c_api.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

namespace libhvd {
namespace {

thread_local std::string last_error;
thread_local bool root_body = false;

// The latest messages of HVD_ERROR_PEER. Any thread. Never destroyed, like Process.
class PeerErrors {
 public:
  void add(const std::string& message) {
    const std::lock_guard lock(mutex_);
    if (std::find(messages_.begin(), messages_.end(), message) != messages_.end()) return;
    messages_[next_] = message;
    next_ = (next_ + 1) % messages_.size();
  }
  // Returns whether the text contains one of them.
  bool any_in(std::string_view text) {
    const std::lock_guard lock(mutex_);
    return std::any_of(messages_.begin(), messages_.end(), [&](const std::string& message) {
      return !message.empty() && text.find(message) != std::string_view::npos;
    });
  }

 private:
  std::mutex mutex_;
  std::array<std::string, 8> messages_;
  std::size_t next_ = 0;
};

PeerErrors& peer_errors() {
  static auto* const only = new PeerErrors;
  return *only;
}

void read_place(const hvd_options& options, CallOptions& read) {
  read.place.on_device = options.memory == HVD_CUDA;
  read.place.stream = options.stream;
  if (options.memory != HVD_HOST && options.memory != HVD_CUDA)
    read.fault = "the memory " + std::to_string(options.memory) + " is none of HVD_HOST, HVD_CUDA";
  if (options.stream != nullptr && options.memory == HVD_HOST)
    read.fault = "a stream is for HVD_CUDA only";
}

// Fills in the options. Throws std::bad_alloc.
void read_fields(const hvd_options* options, MayAllocate may_allocate, CallOptions& read) {
  const std::size_t size = options->struct_size;
  if (size < sizeof(std::size_t) || size > 4096) {
    read.fault =
        "hvd_options.struct_size is " + std::to_string(size) + "; it must be sizeof(hvd_options)";
    return;
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(options);
  for (std::size_t i = sizeof(hvd_options); i < size; ++i) {
    if (bytes[i] != 0) read.fault = "hvd_options asks for what this version of libhvd cannot do";
  }
  hvd_options known{};  // fields that an older caller's struct lacks are zero
  std::memcpy(&known, options, std::min(size, sizeof known));
  read.name = known.name;
  const bool has_factors = known.has_factors != 0;
  if (known.prescale != 0 || has_factors) read.scale.before = known.prescale;
  if (known.postscale != 0 || has_factors) read.scale.after = known.postscale;
  read.process_set = known.process_set;
  read.priority = known.priority;
  read.gradients = known.gradients != 0;
  read_place(known, read);
  read.compression = static_cast<Compression>(known.compression);
  if (known.shape != nullptr) read.shape = known.shape;
  read.allocator = {known.allocate, known.allocate_context};
  if (read.allocator && may_allocate == MayAllocate::no)
    read.fault = "hvd_options.allocate is for allgather and alltoall only";
  if (known.fault != nullptr) read.fault = *known.fault == '\0' ? "it says no more" : known.fault;
}

}  // namespace

hvd_status report(const Error& error) {
  last_error = error.message;
  if (error.status == HVD_ERROR_PEER && !process().forked) peer_errors().add(last_error);
  standing_error.set(error);
  return error.status;
}

hvd_status report_exception(const char* what) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return report(fail(HVD_ERROR_SYSTEM, std::string(what) + ": out of memory"));
  } catch (const std::exception& exception) {
    return report(fail(HVD_ERROR_SYSTEM, std::string(what) + ": " + exception.what()));
  }
}

bool quotes_peer_error(std::string_view text) {
  return peer_errors().any_in(text);
}

Error not_initialized(const char* what) {
  return fail(HVD_ERROR_NOT_INITIALIZED,
              std::string(what) + ": called before hvd_init or after hvd_shutdown");
}

Error in_forked_child(const char* what) {
  return fail(HVD_ERROR_FORKED, std::string(what) +
                                    ": called in a process that was forked after hvd_init; only "
                                    "the process that called hvd_init may");
}

void end_collectives(FailureKind kind) {
  const SessionReader session;
  if (session.get() == nullptr) return;
  Communicator& communicator = session.get()->communicator();
  communicator.abort_job(kind, communicator.rank());
}

hvd_status refuse_in_child(const char* what) {
  end_collectives(FailureKind::forked);
  return report(in_forked_child(what));
}

RootBody::RootBody() : outer_(std::exchange(root_body, true)) {
  process().root_bodies.fetch_add(1, std::memory_order_relaxed);
}

RootBody::~RootBody() {
  process().root_bodies.fetch_sub(1, std::memory_order_relaxed);
  root_body = outer_;
}

// Looks at the number first, because the thread's own flag takes a call to find.
bool RootBody::running() {
  return process().root_bodies.load(std::memory_order_relaxed) > 0 && root_body;
}

Error inside_root_body(const char* what) {
  return fail(HVD_ERROR_INVALID_ARGUMENT,
              std::string(what) +
                  ": called in what one rank runs for all; the other ranks wait for that, not for "
                  "this");
}

ShownWait::ShownWait(const Engine& engine, std::int64_t handle) {
  const SessionReader reader;
  Session* const session = reader.get();
  if (session == nullptr || !session->page()) return;
  const auto [kind, name] = engine.titles(handle);
  if (session->shown().begin_wait(kind, name.empty() ? nullptr : name.c_str())) session_ = session;
}

ShownWait::~ShownWait() {
  const SessionReader reader;
  Session* const session = reader.get();
  if (session == nullptr || session != session_) return;
  session->shown().end_wait(completed_);
}

CallOptions read_options(const hvd_options* options, MayAllocate may_allocate) noexcept {
  static const Fault no_memory = "out of memory";
  CallOptions read;
  if (options == nullptr) return read;
  try {
    read_fields(options, may_allocate, read);
  } catch (const std::bad_alloc&) {
    read.fault = no_memory;
  }
  return read;
}

}  // namespace libhvd

const char* hvd_last_error(void) {
  return libhvd::last_error.c_str();
}
