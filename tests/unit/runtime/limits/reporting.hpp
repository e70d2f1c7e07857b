// Jobs whose ranks each report one line.
#pragma once

#include "support.hpp"

#include <exception>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>

namespace libhvd::test {

// Makes a rank's body that reports what `body` returns or throws.
inline Job::Body reporting(const std::function<std::string()>& body) {
  return [body](int, const Child::Report& report) {
    try {
      report(body());
    } catch (const std::exception& error) {
      report(error.what());
    }
  };
}

inline void expect_from_all(Job& job, const std::string& text) {
  for (int rank = 0; rank < job.size(); ++rank) {
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), text) << "rank " << rank;
  }
}

inline hvd_options named(const std::string& name) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = name.c_str();
  return options;
}

}  // namespace libhvd::test
