// Sets the answers of the double of NVML (nvml_double.cpp) for the life of the object.
#pragma once

#include <cstdlib>
#include <string>

namespace hvdrun {

class FakeNvml {
 public:
  explicit FakeNvml(const std::string& devices) { ::setenv("HVD_FAKE_NVML", devices.c_str(), 1); }
  explicit FakeNvml(int error) {
    ::setenv("HVD_FAKE_NVML_ERROR", std::to_string(error).c_str(), 1);
  }
  ~FakeNvml() {
    for (const char* name :
         {"HVD_FAKE_NVML", "HVD_FAKE_NVML_ERROR", "HVD_FAKE_NVML_REFUSE", "HVD_FAKE_NVML_PIDS"})
      ::unsetenv(name);
  }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;

  void refuse(const std::string& questions) const {
    ::setenv("HVD_FAKE_NVML_REFUSE", questions.c_str(), 1);
  }
  void list_processes_of(const std::string& file) const {
    ::setenv("HVD_FAKE_NVML_PIDS", file.c_str(), 1);
  }
};

}  // namespace hvdrun
