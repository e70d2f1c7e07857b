// For tests of the C++ API with several ranks: each rank runs a body between hvd::init() and
// hvd::shutdown(), in a process of its own, and reports what is wrong.
#pragma once

#include "support.hpp"

#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>

namespace libhvd::test {

// Returns "" or what is wrong.
using RankBody = std::function<std::string(int rank)>;

// Runs the body on ranks that are on these hosts.
inline void expect_right_on(const std::vector<int>& hosts, const RankBody& body) {
  Job job(hosts, [&](int rank, const Child::Report& report) {
    try {
      hvd::init();
      const std::string fault = body(rank);
      report(fault.empty() ? "right" : fault);
      hvd::shutdown();
    } catch (const std::exception& error) {
      report(error.what());
    }
  });
  for (int rank = 0; rank < job.size(); ++rank)
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "right") << "rank " << rank;
}

// Runs the body on `size` ranks of this host.
inline void expect_right(int size, const RankBody& body) {
  expect_right_on(std::vector<int>(static_cast<std::size_t>(size)), body);
}

// Throws an error with this text unless the condition holds.
inline void require(bool holds, const std::string& wrong) {
  if (!holds) throw std::runtime_error(wrong);
}

// Returns the text of the error that the call throws; "" if it throws none.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const hvd::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace libhvd::test
