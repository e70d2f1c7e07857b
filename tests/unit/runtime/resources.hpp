// What a process holds, for tests that repeat something and leak nothing.
#pragma once

#include "seeds.hpp"
#include "support.hpp"

#include <cstddef>
#include <fstream>
#include <string>

namespace libhvd::test {

// By how much the allocator may let a process grow. Sanitizers keep freed memory; the address
// sanitizer looks for leaks itself. qemu keeps 280 KiB of every thread that has ended.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(HVD_TEST_EMULATOR)
inline constexpr std::size_t kGrowthKib = 1024 * 1024;
#else
inline constexpr std::size_t kGrowthKib = 4 * 1024;
#endif

// The resources of this process; see proc(5).
struct Resources {
  std::size_t files = entries_in("/proc/self/fd");
  std::size_t threads = count_threads();
  std::size_t shared_mappings = 0;  // the heap's private ones change
  std::size_t resident_kib = 0;

  Resources() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      // "7f2c000-7f2d000 rw-s 00000000 00:1a 77 /dev/shm/…"
      shared_mappings += line.find(" rw-s ") != std::string::npos;
    }
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) resident_kib = std::stoul(line.substr(6));
    }
  }
};

// Returns "ok", or what has become more. Memory is compared in long runs only.
inline std::string compare(const Resources& before, const Resources& after) {
  std::string text;
  const auto expect_same = [&](const char* what, std::size_t then, std::size_t now) {
    if (now != then)
      text += std::to_string(then) + " " + what + " became " + std::to_string(now) + "; ";
  };
  expect_same("descriptors", before.files, after.files);
  if (const std::size_t threads = count_threads(before.threads); threads > before.threads)
    expect_same("threads", before.threads, threads);
  expect_same("shared mappings", before.shared_mappings, after.shared_mappings);
  if (seeds::are_new() && after.resident_kib > before.resident_kib + kGrowthKib)
    text += "the process grew from " + std::to_string(before.resident_kib) + " to " +
            std::to_string(after.resident_kib) + " KiB";
  return text.empty() ? "ok" : text;
}

}  // namespace libhvd::test
