// Trains a small convolutional network on handwritten digits, on any number of ranks:
//
//   hvdrun -np 2 ./cnn
//
// Everything but the network is that of ../digits.
#include "convolutional_network.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
  digits::Options defaults;
  defaults.learning_rate = 0.05;
  const auto make_model = [](std::uint64_t seed) {
    return std::make_unique<digits::ConvolutionalNetwork>(seed);
  };
  return digits::run_program("cnn", argc, argv, make_model, defaults);
}
