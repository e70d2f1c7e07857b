// Finds the collective that a thread is in, and the user's line that called it, from its stack: of
// torch.distributed, MPI, NCCL, gloo, JAX, TensorFlow, Horovod and hvd. Pure functions, for any
// thread.
#pragma once

#include "look/process_look.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct CollectiveCall {
  std::string function;   // as users call it: "all_reduce", "MPI_Allreduce"
  std::size_t frame = 0;  // of the stack
  bool pairwise = false;  // it exchanges with one other rank: send, recv
};

// Returns the outermost function of a communication library that a user may call; nullopt if the
// stack is in none.
std::optional<CollectiveCall> find_collective(const std::vector<LookFrame>& stack);

// Returns whether a frame is of the user's program, and not of a library, Python's or the system's.
// `program`: the path of the process's executable.
bool is_users(const LookFrame& frame, const std::string& program);

// Returns whether a frame is a native function of libhvd.
bool is_of_libhvd(const LookFrame& frame);

}  // namespace hvdrun
