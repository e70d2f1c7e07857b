// Looks at processes for the tests of launcher/hang.
#pragma once

#include "look/process_look.hpp"

#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

inline LookFrame python_frame(std::string function, std::string file, int line) {
  return {std::move(function), std::move(file), line, {}, true, false};
}

inline LookFrame native_frame(std::string function, std::string library = "/lib/libc.so.6") {
  return {std::move(function), {}, 0, std::move(library), false, false};
}

// A process with one thread that has slept for 12 s in a system call, and did not move.
inline ProcessLook sleeping(std::vector<LookFrame> stack, const std::string& call = "futex",
                            const std::string& waits_for = "another thread") {
  ThreadLook thread;
  thread.tid = 100;
  thread.name = "python3";
  thread.state = 'S';
  thread.system_call = call;
  thread.waits_for = waits_for;
  thread.waiting_seconds = 12;
  thread.stack = std::move(stack);
  thread.movement = Movement{0.3, 0, 0, false};
  ProcessLook look;
  look.pid = look.asked = 100;
  look.name = "python3";
  look.program = "/usr/bin/python3.11";
  look.state = 'S';
  look.threads.push_back(std::move(thread));
  look.thread_count = 1;
  return look;
}

// One that uses a processor.
inline ProcessLook computing(std::vector<LookFrame> stack) {
  auto look = sleeping(std::move(stack), "", "");
  look.state = look.threads[0].state = 'R';
  look.threads[0].waiting_seconds.reset();
  look.threads[0].movement = Movement{0.3, 0.29, 3, true};
  return look;
}

inline const std::string kTorch =
    "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py";

// A rank of PyTorch in a collective.
inline ProcessLook in_torch(const std::string& function, int line) {
  return sleeping(
      {native_frame("pthread_cond_wait"),
       native_frame("c10d::Work::wait(std::chrono::duration<long>)", "/usr/lib/libtorch_cpu.so"),
       python_frame(function, kTorch, 1541), python_frame("step", "/home/u/train.py", line),
       python_frame("<module>", "/home/u/train.py", 99)});
}

// A rank that reads a file.
inline ProcessLook in_loader() {
  return sleeping({native_frame("read"), python_frame("Loader.read", "/home/u/loader.py", 214),
                   python_frame("<module>", "/home/u/train.py", 90)},
                  "read", "fd 5: /data/shard-7 (nfs)");
}

// A rank that waits for its GPU, as CUDA does, without sleeping.
inline ProcessLook on_gpu(const std::string& function, int line) {
  auto look =
      computing({native_frame("?", "/usr/lib/libcuda.so.580.95"),
                 native_frame("cuStreamSynchronize", "/usr/lib/libcuda.so.580.95"),
                 native_frame(function, "/usr/lib/libcudart.so.13"),
                 native_frame("at::native::item(at::Tensor const&)", "/usr/lib/libtorch_cuda.so"),
                 python_frame("step", "/home/u/train.py", line)});
  return look;
}

}  // namespace hvdrun
