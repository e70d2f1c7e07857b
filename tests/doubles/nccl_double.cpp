// A double of libnccl.so.2 on top of the double of CUDA. Its collectives exchange data in shared
// memory. Communicators of several ranks do not block. As with NCCL, a rank whose peer has ended
// hangs on its stream until it aborts the communicator. A collective occupies the whole device:
// collectives of two communicators run one after the other, in the order in which they start. A
// communicator starts only when no collective runs. Wrong use is an error: a call while the
// previous call is in progress, two ranks on one GPU, memory that is not on the device.
//
//   HVD_DOUBLE_NCCL_VERSION      the version (22809)
//   HVD_DOUBLE_NCCL_INIT         "fail": ncclCommInitRankConfig fails; "hang": it never completes
//   HVD_DOUBLE_NCCL_FAILS        the function of that name returns ncclInternalError
//   HVD_DOUBLE_NCCL_GROUPS       a file that gets a byte for each enqueued group of calls, and for
//                                each single call
//   HVD_DOUBLE_NCCL_ASYNC_ERROR  from the n-th enqueued group on, the streams hang, and
//                                ncclCommGetAsyncError returns an error
#include "cuda_double.hpp"
#include "nccl_arithmetic.hpp"
#include "nccl_meeting.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <unistd.h>

#define HVD_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using nccl_double::Meeting;
using nccl_double::Reduction;

constexpr int kSuccess = 0;
constexpr int kUnhandledCudaError = 1;
constexpr int kSystemError = 2;
constexpr int kInternalError = 3;
constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;
constexpr int kRemoteError = 6;
constexpr int kInProgress = 7;
constexpr int kFirstOwnOp = 5;

struct UniqueId {
  char bytes[128];
};

struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

enum class Kind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, receive };

struct Communicator {
  std::shared_ptr<Meeting> meeting;
  std::mutex mutex;  // the watcher thread queries while another thread calls
  bool joined = false;
  bool finalizing = false;
  int error = kSuccess;
  int late_error = kSuccess;  // the status after the call itself has succeeded
  int polls = 0;              // the number of polls that still return "in progress"
  int groups = 0;
  int last_op = kFirstOwnOp - 1;
  std::map<int, Reduction> ops;
  int device = 0;
};

struct Operation {
  Kind kind;
  const void* input;
  void* output;
  std::size_t count;
  int type;
  Reduction reduction;
  int peer;  // or root
};

struct Group {
  int depth = 0;
  Communicator* communicator = nullptr;
  void* stream = nullptr;
  std::vector<Operation> operations;
  int error = kSuccess;
};
thread_local Group group;

bool is_set(const char* variable, const char* value) {
  const char* const text = std::getenv(variable);
  return text != nullptr && std::strcmp(text, value) == 0;
}

bool must_fail(const char* function) {
  return is_set("HVD_DOUBLE_NCCL_FAILS", function);
}

const std::byte* reach(const void* pointer) {
  return cuda_double::reach(pointer);
}

std::vector<const std::byte*> shown_by_all(const Meeting& meeting, std::size_t offset) {
  std::vector<const std::byte*> inputs;
  for (int rank = 0; rank < meeting.size; ++rank) inputs.push_back(meeting.mailbox(rank) + offset);
  return inputs;
}

std::size_t input_bytes(const Meeting& meeting, const Operation& own) {
  const std::size_t bytes = own.count * nccl_double::element_bytes(own.type);
  if (own.kind == Kind::reduce_scatter) return bytes * static_cast<std::size_t>(meeting.size);
  if (own.kind == Kind::broadcast && meeting.rank != own.peer) return 0;
  return bytes;
}

void take_result(const Meeting& meeting, const Operation& own) {
  const std::size_t bytes = own.count * nccl_double::element_bytes(own.type);
  const auto rank = static_cast<std::size_t>(meeting.rank);
  std::byte* const output = cuda_double::reach(own.output);
  switch (own.kind) {
    case Kind::reduce:
      if (meeting.rank != own.peer) return;
      [[fallthrough]];
    case Kind::all_reduce:
      return nccl_double::reduce(own.type, own.reduction, shown_by_all(meeting, 0), output,
                                 own.count);
    case Kind::reduce_scatter:
      return nccl_double::reduce(own.type, own.reduction, shown_by_all(meeting, rank * bytes),
                                 output, own.count);
    case Kind::broadcast:
      std::memcpy(output, meeting.mailbox(own.peer), bytes);
      return;
    case Kind::all_gather:
      for (int peer = 0; peer < meeting.size; ++peer)
        std::memcpy(output + static_cast<std::size_t>(peer) * bytes, meeting.mailbox(peer), bytes);
      return;
    default:
      return;
  }
}

bool run_collective(Meeting& meeting, const Operation& own) {
  const std::size_t bytes = input_bytes(meeting, own);
  if (bytes > nccl_double::kMailboxBytes) std::abort();  // the test's data is too large
  if (bytes > 0) std::memcpy(meeting.mailbox(meeting.rank), reach(own.input), bytes);
  if (!meeting.barrier()) return false;
  take_result(meeting, own);
  return meeting.barrier();
}

// Runs on the stream's thread. Sends all data of a group before it waits for any.
void run(Meeting& meeting, const std::vector<Operation>& operations) {
  for (const Operation& one : operations) {
    if (one.kind == Kind::send && !meeting.send(one.peer, reach(one.input), one.count)) return;
  }
  for (const Operation& one : operations) {
    if (one.kind == Kind::send) continue;
    const bool done = one.kind == Kind::receive
                          ? meeting.receive(one.peer, cuda_double::reach(one.output), one.count)
                          : run_collective(meeting, one);
    if (!done) return;
  }
}

void hang(const Meeting& meeting) {
  while (!meeting.aborted()) ::usleep(200);
}

constexpr int kMostDevices = 64;
std::array<std::atomic<bool>, kMostDevices> busy{};  // devices on which a collective runs

// Runs on the stream's thread.
void occupy(int device, const Meeting& meeting, const std::function<void()>& work) {
  auto& occupied = busy[static_cast<std::size_t>(device)];
  while (occupied.exchange(true)) {
    if (meeting.aborted()) return;
    ::usleep(20);
  }
  work();
  occupied.store(false);
}

int wrong_memory(const Communicator& communicator, const Operation& own) {
  const bool needs_output = own.kind != Kind::send &&
                            (own.kind != Kind::reduce || own.peer == communicator.meeting->rank);
  const bool needs_input = own.kind != Kind::receive && input_bytes(*communicator.meeting, own) > 0;
  if (needs_input && reach(own.input) == nullptr) return kInvalidArgument;
  if (needs_output && reach(own.output) == nullptr) return kInvalidArgument;
  return kSuccess;
}

int launch() {
  Communicator& communicator = *group.communicator;
  const std::lock_guard lock(communicator.mutex);
  if (communicator.polls > 0 || !communicator.joined || communicator.finalizing)
    return kInvalidUsage;
  if (cuda_double::current_device() != communicator.device) return kInvalidUsage;
  if (const char* const file = std::getenv("HVD_DOUBLE_NCCL_GROUPS"))
    std::ofstream(file, std::ios::app) << 'x';
  const char* const limit = std::getenv("HVD_DOUBLE_NCCL_ASYNC_ERROR");
  const auto meeting = communicator.meeting;
  const bool blocking = meeting->size == 1;
  communicator.polls = blocking ? 0 : 2;
  if (limit != nullptr && ++communicator.groups >= std::atoi(limit)) {
    communicator.late_error = kUnhandledCudaError;
    cuda_double::enqueue(group.stream, [meeting, device = communicator.device] {
      occupy(device, *meeting, [&] { hang(*meeting); });
    });
    return kInProgress;
  }
  cuda_double::enqueue(group.stream, [meeting, device = communicator.device,
                                      operations = std::move(group.operations)] {
    occupy(device, *meeting, [&] { run(*meeting, operations); });
  });
  return blocking ? kSuccess : kInProgress;
}

int end_group() {
  if (--group.depth > 0) return kSuccess;
  int status = group.error;
  if (status == kSuccess && group.communicator != nullptr) status = launch();
  group = {};
  return status;
}

int add(const char* function, void* comm, void* stream, Operation operation, int op) {
  ++group.depth;
  auto& communicator = *static_cast<Communicator*>(comm);
  group.communicator = &communicator;
  group.stream = stream;
  if (op >= kFirstOwnOp) {
    if (communicator.ops.count(op) == 0) group.error = kInvalidArgument;
    operation.reduction = communicator.ops[op];
  } else {
    operation.reduction.op = op;
  }
  if (must_fail(function)) group.error = kInternalError;
  if (nccl_double::element_bytes(operation.type) == 0) group.error = kInvalidArgument;
  if (const int wrong = wrong_memory(communicator, operation); wrong != kSuccess)
    group.error = wrong;
  group.operations.push_back(operation);
  return end_group();
}

// Returns a key for the GPU and its host. As in NCCL, NCCL_HOSTID distinguishes hosts.
std::int32_t gpu_key(int device) {
  const char* const host = std::getenv("NCCL_HOSTID");
  const std::string key = std::to_string(device) + '/' + (host == nullptr ? "" : host);
  return static_cast<std::int32_t>(std::hash<std::string>()(key)) | 1;
}

// Requires that the caller holds the mutex.
int join(Communicator& communicator) {
  auto& shared = communicator.meeting->shared();
  if (shared.failed.load() != 0) return kRemoteError;
  if (is_set("HVD_DOUBLE_NCCL_INIT", "hang")) return kInProgress;
  auto& own = shared.gpu[communicator.meeting->rank];
  if (own.load() == 0) {
    if (busy[static_cast<std::size_t>(communicator.device)].load()) return kInProgress;
    own.store(gpu_key(communicator.device));
    shared.joined.fetch_add(1);
  }
  if (shared.joined.load() < communicator.meeting->size) return kInProgress;
  for (int rank = 0; rank < communicator.meeting->size; ++rank) {
    if (rank != communicator.meeting->rank && shared.gpu[rank].load() == own.load())
      return kInvalidUsage;  // "Duplicate GPU detected"
  }
  communicator.joined = true;
  return kSuccess;
}

}  // namespace

HVD_EXPORT int ncclGetVersion(int* version) {
  const char* const text = std::getenv("HVD_DOUBLE_NCCL_VERSION");
  *version = text == nullptr ? 22809 : std::atoi(text);
  return kSuccess;
}

HVD_EXPORT int ncclGetUniqueId(UniqueId* id) {
  if (must_fail("ncclGetUniqueId")) return kSystemError;
  unsigned char random[8] = {};
  std::ifstream("/dev/urandom", std::ios::binary).read(reinterpret_cast<char*>(random), 8);
  *id = {};
  std::snprintf(id->bytes, sizeof id->bytes, "nccl-double-%02x%02x%02x%02x%02x%02x%02x%02x",
                random[0], random[1], random[2], random[3], random[4], random[5], random[6],
                random[7]);
  return kSuccess;
}

HVD_EXPORT int ncclCommInitRankConfig(void** comm, int size, UniqueId id, int rank,
                                      Config* config) {
  if (config->magic != 0xcafebeef || config->size < 20 || config->version < 21400 ||
      config->blocking != (size == 1 ? 1 : 0))
    return kInvalidArgument;
  if (size > nccl_double::kMostRanks) return kInvalidArgument;
  auto meeting = Meeting::open(id.bytes, rank, size);
  if (!meeting) return kSystemError;
  const bool fails = is_set("HVD_DOUBLE_NCCL_INIT", "fail");
  if (fails) meeting->shared().failed.store(1 + rank);
  auto* const made = new Communicator;
  made->meeting = std::move(meeting);
  made->device = cuda_double::current_device();
  if (fails) made->error = kSystemError;
  *comm = made;
  if (size == 1) return fails ? kSystemError : join(*made);
  return kInProgress;
}

HVD_EXPORT int ncclCommGetAsyncError(void* comm, int* status) {
  auto& communicator = *static_cast<Communicator*>(comm);
  const std::lock_guard lock(communicator.mutex);
  if (communicator.error != kSuccess) {
    *status = communicator.error;
  } else if (!communicator.joined) {
    *status = join(communicator);
    if (*status != kInProgress) communicator.error = *status;
  } else {
    *status = communicator.polls > 0 ? kInProgress : kSuccess;
    if (communicator.polls == 0) communicator.error = communicator.late_error;
    if (communicator.polls > 0) --communicator.polls;
  }
  return kSuccess;
}

HVD_EXPORT int ncclCommFinalize(void* comm) {
  auto& communicator = *static_cast<Communicator*>(comm);
  const std::lock_guard lock(communicator.mutex);
  communicator.finalizing = true;
  communicator.polls = 2;
  return kInProgress;
}

HVD_EXPORT int ncclCommDestroy(void* comm) {
  delete static_cast<Communicator*>(comm);
  return kSuccess;
}

HVD_EXPORT int ncclCommAbort(void* comm) {
  auto* const communicator = static_cast<Communicator*>(comm);
  communicator->meeting->abort();
  delete communicator;
  return kSuccess;
}

HVD_EXPORT int ncclGroupStart() {
  ++group.depth;
  return kSuccess;
}

HVD_EXPORT int ncclGroupEnd() {
  return end_group();
}

HVD_EXPORT int ncclAllReduce(const void* input, void* output, std::size_t count, int type, int op,
                             void* comm, void* stream) {
  return add("ncclAllReduce", comm, stream, {Kind::all_reduce, input, output, count, type, {}, 0},
             op);
}

HVD_EXPORT int ncclReduce(const void* input, void* output, std::size_t count, int type, int op,
                          int root, void* comm, void* stream) {
  return add("ncclReduce", comm, stream, {Kind::reduce, input, output, count, type, {}, root}, op);
}

HVD_EXPORT int ncclBroadcast(const void* input, void* output, std::size_t count, int type, int root,
                             void* comm, void* stream) {
  return add("ncclBroadcast", comm, stream, {Kind::broadcast, input, output, count, type, {}, root},
             0);
}

HVD_EXPORT int ncclAllGather(const void* input, void* output, std::size_t count, int type,
                             void* comm, void* stream) {
  return add("ncclAllGather", comm, stream, {Kind::all_gather, input, output, count, type, {}, 0},
             0);
}

HVD_EXPORT int ncclReduceScatter(const void* input, void* output, std::size_t count, int type,
                                 int op, void* comm, void* stream) {
  return add("ncclReduceScatter", comm, stream,
             {Kind::reduce_scatter, input, output, count, type, {}, 0}, op);
}

// Sends and receives are of bytes only, since libhvd moves rows as ncclInt8.
HVD_EXPORT int ncclSend(const void* input, std::size_t count, int type, int peer, void* comm,
                        void* stream) {
  if (type != 0) return kInvalidArgument;
  return add("ncclSend", comm, stream, {Kind::send, input, nullptr, count, type, {}, peer}, 0);
}

HVD_EXPORT int ncclRecv(void* output, std::size_t count, int type, int peer, void* comm,
                        void* stream) {
  if (type != 0) return kInvalidArgument;
  return add("ncclRecv", comm, stream, {Kind::receive, nullptr, output, count, type, {}, peer}, 0);
}

HVD_EXPORT int ncclRedOpCreatePreMulSum(int* op, void* factor, int type, int residence,
                                        void* comm) {
  if (residence != 1) return kInvalidArgument;
  auto& communicator = *static_cast<Communicator*>(comm);
  const std::lock_guard lock(communicator.mutex);
  Reduction reduction{0, true, 0};
  std::memcpy(&reduction.factor, factor, nccl_double::element_bytes(type));
  *op = ++communicator.last_op;
  communicator.ops[*op] = reduction;
  return kSuccess;
}

HVD_EXPORT int ncclRedOpDestroy(int op, void* comm) {
  auto& communicator = *static_cast<Communicator*>(comm);
  const std::lock_guard lock(communicator.mutex);
  return communicator.ops.erase(op) == 1 ? kSuccess : kInvalidArgument;
}

HVD_EXPORT const char* ncclGetErrorString(int status) {
  constexpr const char* kTexts[] = {"no error",       "unhandled cuda error", "system error",
                                    "internal error", "invalid argument",     "invalid usage",
                                    "remote error",   "in progress"};
  return status >= 0 && status < 8 ? kTexts[status] : "unknown result code";
}

HVD_EXPORT const char* ncclGetLastError(void*) {
  return "";
}
