// Trains the network of ../digits on GPUs, one per rank, with the same losses:
//
//   hvdrun -np 2 ./digits_cuda
//
// The ranks work together in cuda_learner.cpp. Everything but the network comes from ../digits.
#include "command_line.hpp"
#include "cuda_learner.hpp"
#include "device.hpp"
#include "network.hpp"

#include <memory>

#include <hvd/hvd.hpp>

int main(int argc, char** argv) {
  return digits::run_program("digits_cuda", argc, argv, [](const digits::Options& options) {
    digits::select_device(hvd::local_device());
    return std::make_unique<digits::CudaLearner>(digits::Network(options.seed, options.hidden));
  });
}
