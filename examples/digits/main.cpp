// Trains a small network on handwritten digits, on any number of ranks:
//
//   ./digits                      one rank
//   hvdrun -np 4 ./digits         four ranks, the same losses
//
// training.hpp has all calls of hvd that training needs: copy from there. ../cnn does the same with
// another network, ../digits_cuda on GPUs.
#include "command_line.hpp"
#include "network.hpp"
#include "training.hpp"

#include <memory>

int main(int argc, char** argv) {
  return digits::run_program("digits", argc, argv, [](const digits::Options& options) {
    return std::make_unique<digits::Optimizer>(
        std::make_unique<digits::Network>(options.seed, options.hidden));
  });
}
