// Sets what the double of NVML answers (nvml_double.cpp), for the life of the object.
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
    ::unsetenv("HVD_FAKE_NVML");
    ::unsetenv("HVD_FAKE_NVML_ERROR");
  }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;
};

}  // namespace hvdrun
