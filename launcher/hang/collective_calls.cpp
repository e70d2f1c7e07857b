#include "hang/collective_calls.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

namespace hvdrun {
namespace {

using namespace std::string_view_literals;

// Files of Python packages whose public functions communicate.
constexpr std::array kPythonFiles{"torch/distributed/distributed_c10d.py"sv,
                                  "torch/distributed/c10d_logger.py"sv,
                                  "torch/distributed/nn/functional.py"sv,
                                  "torch/distributed/_functional_collectives.py"sv,
                                  "torch/distributed/rendezvous.py"sv,
                                  "horovod/torch/mpi_ops.py"sv,
                                  "horovod/torch/functions.py"sv,
                                  "horovod/tensorflow/mpi_ops.py"sv,
                                  "horovod/common/basics.py"sv,
                                  "jax/experimental/multihost_utils.py"sv,
                                  "jax/_src/distributed.py"sv,
                                  "tensorflow/python/distribute/cross_device_ops.py"sv,
                                  "tensorflow/python/ops/collective_ops.py"sv,
                                  "torch/autograd/__init__.py"sv,
                                  "torch/_tensor.py"sv};
// In the last two: the sum of the gradients is a part of it, with DistributedDataParallel.
constexpr std::array kBackward{"torch/autograd/__init__.py"sv, "torch/_tensor.py"sv};

// What native functions of these libraries are called by users, by the beginnings of their names.
constexpr std::array kNative{"MPI_"sv,
                             "PMPI_"sv,
                             "ncclAll"sv,
                             "ncclReduce"sv,
                             "ncclBroadcast"sv,
                             "ncclBcast"sv,
                             "ncclSend"sv,
                             "ncclRecv"sv,
                             "ncclGroupEnd"sv,
                             "ncclCommInit"sv,
                             "gloo::allreduce"sv,
                             "gloo::allgather"sv,
                             "gloo::barrier"sv,
                             "gloo::broadcast"sv,
                             "gloo::reduce"sv,
                             "gloo::alltoall"sv,
                             "gloo::scatter"sv,
                             "gloo::gather"sv,
                             "gloo::rendezvous"sv,
                             "c10d::"sv,
                             "hvd_"sv,
                             "xla::Rendezvous"sv,
                             "tensorflow::BaseCollectiveExecutor"sv,
                             "tensorflow::RingReducer"sv};
// These are not waits for other ranks.
constexpr std::array kNotCollective{"MPI_Comm_rank"sv,
                                    "MPI_Comm_size"sv,
                                    "MPI_Wtime"sv,
                                    "hvd_last_error"sv,
                                    "c10d::ProcessGroupNCCL::ncclCommWatchdog"sv,
                                    "c10d::ProcessGroupNCCL::heartbeatMonitor"sv,
                                    "c10d::ProcessGroupNCCL::workCleanupLoop"sv,
                                    "c10d::ProcessGroupGloo::runLoop"sv,
                                    "c10d::detail::TCPStoreMasterDaemon"sv,
                                    "c10d::detail::BackgroundThread"sv};
constexpr std::array kPairwise{"send"sv, "recv"sv, "isend"sv,    "irecv"sv,
                               "Send"sv, "Recv"sv, "ncclSend"sv, "ncclRecv"sv};

bool ends_with_any(const std::string& text, const auto& endings) {
  return std::ranges::any_of(endings, [&](std::string_view end) { return text.ends_with(end); });
}

bool begins_with_any(std::string_view text, const auto& beginnings) {
  return std::ranges::any_of(beginnings,
                             [&](std::string_view begin) { return text.starts_with(begin); });
}

// Returns "read" for "Loader.read".
std::string last_part(const std::string& function) {
  const auto dot = function.rfind('.');
  return dot == std::string::npos ? function : function.substr(dot + 1);
}

bool is_of_hvd(const LookFrame& frame) {
  return frame.file.find("/python/hvd/") != std::string::npos ||
         frame.file.find("-packages/hvd/") != std::string::npos;
}

// Returns "MPI_Allreduce" for "PMPI_Allreduce", and without arguments and the library's version.
std::string native_name(const std::string& function) {
  std::string name = function.substr(0, function.find_first_of("(<@"));
  if (name.starts_with("PMPI_")) name.erase(0, 1);
  return name;
}

bool is_pairwise(const std::string& function) {
  if (std::ranges::find(kPairwise, function) != kPairwise.end()) return true;
  if (!function.starts_with("MPI_")) return false;
  const std::string what = function.substr(4);
  return what.ends_with("send") || what.ends_with("Send") || what.ends_with("recv") ||
         what.ends_with("Recv") || what.starts_with("Wait") || what.starts_with("Probe") ||
         what == "Sendrecv" || what == "Mprobe";
}

// Returns the name as users call it; "" if the frame is not of such a library.
std::string public_name(const LookFrame& frame) {
  if (!frame.is_python) {
    if (!begins_with_any(frame.function, kNative) ||
        begins_with_any(frame.function, kNotCollective))
      return {};
    return native_name(frame.function);
  }
  const std::string name = last_part(frame.function);
  if (name.empty() || name[0] == '_' || name[0] == '<' || name == "wrapper" || name == "inner")
    return {};
  if (ends_with_any(frame.file, kBackward)) return name == "backward" ? name : "";
  return ends_with_any(frame.file, kPythonFiles) || is_of_hvd(frame) ? name : "";
}

}  // namespace

std::optional<CollectiveCall> find_collective(const std::vector<LookFrame>& stack) {
  std::optional<CollectiveCall> found;
  bool is_native = false;  // something below is a native function of such a library, or a wait
  for (std::size_t index = 0; index < stack.size(); ++index) {
    const auto name = public_name(stack[index]);
    if (name.empty()) continue;
    // Without a communication library below it, backward() computes.
    if (name == "backward" && !is_native) continue;
    if (!stack[index].is_python) is_native = true;
    found = CollectiveCall{name, index, is_pairwise(name)};
  }
  return found;
}

bool is_of_libhvd(const LookFrame& frame) {
  return !frame.is_python &&
         std::filesystem::path(frame.library).filename().string().starts_with("libhvd");
}

bool is_users(const LookFrame& frame, const std::string& program) {
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  if (frame.interpreter || frame.function.empty() || frame.function == "?") return false;
  if (frame.is_python)
    return !frame.file.empty() && !frame.file.starts_with("<frozen") &&
           !has(frame.file, "-packages/") && !has(frame.file, "/lib/python3") &&
           !has(frame.file, "/lib64/python3") && !is_of_hvd(frame);
  if (is_system_header(frame.file)) return false;
  if (frame.library == program) return frame.function != "_start";
  const auto name = std::filesystem::path(frame.library).filename().string();
  return !frame.library.empty() && frame.library[0] == '/' && !has(frame.library, "-packages/") &&
         !has(frame.library, "/lib/python3") && !frame.library.starts_with("/lib") &&
         !frame.library.starts_with("/usr/lib") && !is_of_libhvd(frame) &&
         !name.starts_with("libpython") && !name.starts_with("libmpi") &&
         !name.starts_with("libnccl") && !name.starts_with("libcuda") &&
         !name.starts_with("libamdhip64");
}

}  // namespace hvdrun
