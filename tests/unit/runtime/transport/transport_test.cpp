// Which transport the environment asks for.
#include "transport/transport.hpp"

#include "support.hpp"

#include <gtest/gtest.h>

namespace libhvd {
namespace {

Result<Transport> read(const std::string& value) {
  return read_transport(test::make_environment({{"HVD_TRANSPORT", value}}));
}

TEST(Transport, IsTcpUnlessTheEnvironmentNamesAnother) {
  EXPECT_EQ(*read_transport(test::make_environment({})), Transport::tcp);
  EXPECT_EQ(*read(""), Transport::tcp);
  EXPECT_EQ(*read("tcp"), Transport::tcp);
  EXPECT_EQ(*read("mpi"), Transport::mpi);
}

TEST(Transport, UnknownNamesFailWithTheVariableAndItsValues) {
  for (const std::string name : {"MPI", "ucx", "mpi ", "0"}) {
    const auto transport = read(name);
    ASSERT_FALSE(transport.ok()) << name;
    EXPECT_EQ(transport.error().status, HVD_ERROR_ENVIRONMENT);
    EXPECT_EQ(transport.error().message, "HVD_TRANSPORT=\"" + name +
                                             "\" is not a transport: it is tcp (the default) or "
                                             "mpi");
  }
}

}  // namespace
}  // namespace libhvd
