"""Programs of libhvd and the package hvd with which tests check each kind of installation."""

from __future__ import annotations

# Prints the rank, the number of ranks, and the list of all ranks.
RANKS = "import hvd; hvd.init(); print(hvd.rank(), 'of', hvd.size(), hvd.allgather_object(hvd.rank()))"
TWO_RANKS = ["0 of 2 [0, 1]", "1 of 2 [0, 1]"]

# Adds the ranks' numbers, each plus one. Rank 0 prints the sum.
PROGRAM = """\
#include <cstdio>
#include <hvd/hvd.hpp>

int main() {
  hvd::init();
  const float sum = hvd::allreduce(static_cast<float>(hvd::rank() + 1), hvd::Op::sum);
  if (hvd::rank() == 0) std::printf("sum %.0f of %d ranks\\n", sum, hvd::size());
  hvd::shutdown();
}
"""

# Builds first.cpp as the program `first`.
PROJECT = """\
cmake_minimum_required(VERSION 3.18)
project(first LANGUAGES CXX)
find_package(hvd REQUIRED)
add_executable(first first.cpp)
target_link_libraries(first PRIVATE hvd::hvd)
"""
