// Which transport the environment asks for, and what goes over it.
#include "transport/transport.hpp"

#include "collective/rule_between_hosts.hpp"
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

TEST(Transport, ThatThereIsNotIsAnErrorThatNamesTheVariableAndItsValues) {
  for (const std::string name : {"MPI", "ucx", "mpi ", "0"}) {
    const auto transport = read(name);
    ASSERT_FALSE(transport.ok()) << name;
    EXPECT_EQ(transport.error().status, HVD_ERROR_ENVIRONMENT);
    EXPECT_EQ(transport.error().message, "HVD_TRANSPORT=\"" + name +
                                             "\" is not a transport: it is tcp (the default) or "
                                             "mpi");
  }
}

TEST(Transport, OfTwoRanksCarriesTheLargestMessagesUnlessItIsTcp) {
  for (const Transport transport : {Transport::tcp, Transport::mpi}) {
    EXPECT_FALSE(goes_by_streams(32 * 1024, 2, kChunkBytes, transport, false));
    EXPECT_TRUE(goes_by_streams(kLargeBytesOfTwoRanks, 2, kChunkBytes, transport, false));
    EXPECT_TRUE(goes_by_streams(kLargeBytesOfTwoRanks + 1, 3, kChunkBytes, transport, false));
  }
  EXPECT_FALSE(goes_by_streams(kLargeBytesOfTwoRanks + 1, 2, kChunkBytes, Transport::tcp, false));
  EXPECT_TRUE(goes_by_streams(kLargeBytesOfTwoRanks + 1, 2, kChunkBytes, Transport::mpi, false));
  EXPECT_TRUE(goes_by_streams(kLargeBytesOfTwoRanks + 1, 2, kChunkBytes, Transport::tcp, true));
  EXPECT_FALSE(goes_by_streams(2048, 2000, 2048, Transport::tcp, false));
  EXPECT_TRUE(goes_by_streams(2049, 2000, 2048, Transport::tcp, false)) << "more than a rank shows";
}

}  // namespace
}  // namespace libhvd
