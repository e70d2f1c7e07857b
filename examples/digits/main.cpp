// Trains a small network on handwritten digits, on any number of ranks:
//
//   ./digits                      one rank
//   hvdrun -np 4 ./digits         four ranks, the same losses
//
// The ranks work together in training.cpp. ../cnn does the same with another network,
// ../digits_cuda on GPUs.
#include "network.hpp"
#include "optimizer.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
  return digits::run_program("digits", argc, argv, [](const digits::Options& options) {
    return std::make_unique<digits::Optimizer>(
        std::make_unique<digits::Network>(options.seed, options.hidden));
  });
}
