// The smallest program: prints its rank, and the sum over all ranks.
#include <iostream>

#include <hvd/hvd.hpp>

int main() {
  hvd::init();
  std::cout << "rank " << hvd::rank() << " of " << hvd::size() << std::endl;

  const int sum = hvd::allreduce(hvd::rank(), hvd::Op::sum);
  hvd::root_out() << "the ranks add up to " << sum << std::endl;

  hvd::shutdown();
}
