#include "common/uncaught.hpp"
#include "look/look_program.hpp"

#include <cstdlib>

int main(int argc, char** argv) {
  common::report_uncaught(EXIT_FAILURE);
  return hvdrun::look_program(argc, argv);
}
