// The command line of the examples.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <hvd/rates.hpp>

namespace digits {

struct Options {
  int epochs = 20;
  int batch = 64;  // samples in a step, of all ranks; with a scaling rule, of one rank
  double learning_rate = 0.1;
  hvd::Scaling scaling = hvd::Scaling::none;
  int warmup_epochs = 0;
  int hidden = 64;                // units of the hidden layer; 0: the network has no such option
  int patience = 0;               // epochs without a better validation loss; 0: no early stopping
  std::string checkpoint_folder;  // "": no checkpoints
  int keep = 3;                   // newest checkpoints
  bool resume = false;
  std::string log;         // "": none
  std::uint64_t seed = 1;  // of the first weights and of each epoch's order
  std::string data;        // "": the digits that came with the example
  bool quiet = false;      // only the last line
  bool help = false;
};

// Returns "usage: NAME …".
std::string usage(const std::string& program);

// An error in the command line.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Sets the options that the command line names, and leaves the rest of `options` as it is. Throws
// UsageError.
void parse_options(int argc, char** argv, Options& options);

}  // namespace digits
