// Trains the network of ../digits on GPUs, one a rank, with the same losses:
//
//   hvdrun -np 2 ./digits_cuda
//
// cuda_learner.cpp is where the ranks work together; all around the network is that of ../digits.
#include "cuda_learner.hpp"
#include "device.hpp"
#include "network.hpp"
#include "program.hpp"

#include <hvd/hvd.hpp>

int main(int argc, char** argv) {
  return digits::run_program("digits_cuda", argc, argv, [](const digits::Options& options) {
    digits::select_device(hvd::local_rank());
    return std::make_unique<digits::CudaLearner>(digits::Network(options.seed, options.hidden));
  });
}
