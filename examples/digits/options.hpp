// The command line of the example.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace digits {

struct Options {
  int epochs = 20;
  int batch = 64;  // samples in a step, over all ranks
  double learning_rate = 0.1;
  std::uint64_t seed = 1;  // of the first weights and of each epoch's order
  std::string data;        // "": the digits that came with the example
  bool quiet = false;      // only the last line
  bool help = false;
};

extern const char* const kUsage;

// What is wrong with the command line.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws UsageError.
Options parse_options(int argc, char** argv);

}  // namespace digits
