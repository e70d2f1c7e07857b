#include "agent/tcp_connection.hpp"

#include "connection_pairs.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

TEST(Route, IsReadFromSshConnection) {
  EXPECT_EQ(route_of_ssh("10.0.0.1 40312 10.0.0.2 22").text, "10.0.0.1:40312 > 10.0.0.2:22");
  EXPECT_EQ(route_of_ssh("fd00::1 40312 fd00::2 22").text, "[fd00::1]:40312 > [fd00::2]:22");
  EXPECT_EQ(route_of_ssh("10.0.0.1 40312 10.0.0.2").text, "");
  EXPECT_EQ(route_of_ssh(nullptr).text, "");
}

TEST(Route, OfASocketNamesBothEndpoints) {
  const common::test::SocketPair pair = common::test::tcp_pair();
  const int port = peer_address(pair.client.get())->port();
  const std::string launcher = "127.0.0.1:" + std::to_string(port);
  EXPECT_EQ(route_of_socket(pair.client.get()).text.rfind(launcher + " < 127.0.0.1:", 0), 0u)
      << route_of_socket(pair.client.get()).text;
  EXPECT_EQ(route_of_socket(-1).text, "? < ?");
}

// Returns a line of /proc/net/tcp (proc(5)) without its last fields.
std::string tcp_line(const std::string& timer, const std::string& retransmits, int probes,
                     const std::string& state = "01") {
  return "   7: 0100007F:0016 0200007F:A4D2 " + state + " 00000040:00000000 " + timer + " " +
         retransmits + "     0        " + std::to_string(probes) +
         " 4711 4 0000000000000000 20 4 30 10 -1";
}

TEST(WaitsInVain, IsTrueAfterTwoRetransmissionsOrProbes) {
  const std::vector<std::string> ours{"12", "4711"};
  EXPECT_FALSE(waits_in_vain(tcp_line("00:00000000", "00000000", 0), ours));
  EXPECT_FALSE(waits_in_vain(tcp_line("01:00000014", "00000001", 0), ours)) << "one retransmission";
  EXPECT_TRUE(waits_in_vain(tcp_line("01:00000050", "00000002", 0), ours));
  EXPECT_TRUE(waits_in_vain(tcp_line("01:00000050", "0000000A", 0), ours));
  EXPECT_TRUE(waits_in_vain(tcp_line("04:00000050", "00000000", 2), ours)) << "a full window";
  EXPECT_FALSE(waits_in_vain(tcp_line("01:00000050", "00000002", 0), {"12"}))
      << "the socket of another process";
  EXPECT_FALSE(waits_in_vain(tcp_line("01:00000050", "00000002", 0, "02"), ours)) << "SYN_SENT";
  EXPECT_FALSE(waits_in_vain("  sl  local_address rem_address   st tx_queue rx_queue", ours));
}

// The kernel of a peer that reads nothing still answers.
TEST(WaitsInVain, IsFalseForAPeerThatReadsNothing) {
  const common::test::SocketPair pair = common::test::tcp_pair();
  ASSERT_EQ(::send(pair.client.get(), "word", 4, MSG_NOSIGNAL), 4);
  EXPECT_FALSE(waits_in_vain(::getpid()));
  EXPECT_FALSE(waits_in_vain(-1)) << "an unknown process";
}

}  // namespace
}  // namespace hvdrun
