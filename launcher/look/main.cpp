#include "look/look_program.hpp"

int main(int argc, char** argv) {
  return hvdrun::look_program(argc, argv);
}
