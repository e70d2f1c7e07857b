// Trains a small convolutional network on handwritten digits, on any number of ranks:
//
//   hvdrun -np 2 ./cnn
//
// Everything but the network comes from ../digits.
#include "command_line.hpp"
#include "convolutional_network.hpp"
#include "training.hpp"

#include <memory>

int main(int argc, char** argv) {
  digits::Options defaults;
  defaults.learning_rate = 0.05;
  defaults.hidden = 0;
  const auto make_learner = [](const digits::Options& options) {
    return std::make_unique<digits::Optimizer>(
        std::make_unique<digits::ConvolutionalNetwork>(options.seed));
  };
  return digits::run_program("cnn", argc, argv, make_learner, defaults);
}
