// Finds from a thread's stack whether it waits for its GPU: in a function of CUDA or HIP that ends
// when the GPU has done its work. A pure function, for any thread.
//
// Source: CUDA Runtime API, CUDA Driver API and HIP: the functions that block the calling thread.
#pragma once

#include "look/process_look.hpp"

#include <optional>
#include <string>

namespace hvdrun {

// Returns the function as users call it: "cudaStreamSynchronize"; empty if its name is unknown.
// nullopt: the thread does not wait for a GPU.
std::optional<std::string> find_gpu_wait(const ThreadLook& thread, const std::string& program);

}  // namespace hvdrun
