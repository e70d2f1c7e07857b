// What /proc says: the parsers.
#include "look/proc_files.hpp"

#include "look/descriptors.hpp"
#include "look/system_calls.hpp"

#include <cstring>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hvdrun {
namespace {

TEST(ParseSystemCall, ReadsTheNumberItsArgumentsAndTheRegisters) {
  const auto call = parse_system_call("0 0x3 0x7ffd 0x10 0x0 0x0 0x5 0x7ffe00 0x4010\n");
  EXPECT_TRUE(call.known);
  EXPECT_EQ(call.number, 0);
  EXPECT_THAT(call.arguments, testing::ElementsAre(0x3, 0x7ffd, 0x10, 0, 0, 5));
  EXPECT_EQ(call.stack, 0x7ffe00U);
  EXPECT_EQ(call.at, 0x4010U);
}

TEST(ParseSystemCall, KnowsAThreadThatRunsAndOneOutsideOfASystemCall) {
  EXPECT_TRUE(parse_system_call("running\n").running);
  const auto outside = parse_system_call("-1 0x7ffe00 0x4010\n");
  EXPECT_EQ(outside.number, -1);
  EXPECT_EQ(outside.stack, 0x7ffe00U);
  EXPECT_EQ(outside.at, 0x4010U);
}

TEST(ParseSystemCall, KnowsNothingOfOtherTexts) {
  for (const char* text : {"", "\n", "x", "0x3"}) {
    const auto call = parse_system_call(text);
    EXPECT_EQ(call.at, 0U) << text;
    EXPECT_FALSE(call.running) << text;
  }
}

TEST(ParseMaps, ReadsFilesWithBlanksAndMemoryWithoutFiles) {
  const auto maps = parse_maps(
      "55d0-55e0 r-xp 00001000 fe:01 42                         /opt/a b (deleted)\n"
      "7ff0-7ff8 rw-p 00000000 00:00 0 \n"
      "no mapping\n");
  ASSERT_EQ(maps.size(), 2U);
  EXPECT_EQ(maps[0].path, "/opt/a b (deleted)");
  EXPECT_EQ(maps[0].start, 0x55d0U);
  EXPECT_EQ(maps[0].end, 0x55e0U);
  EXPECT_EQ(maps[0].offset, 0x1000U);
  EXPECT_EQ(maps[0].inode, 42U);
  EXPECT_TRUE(maps[0].executable);
  EXPECT_FALSE(maps[0].writable);
  EXPECT_EQ(maps[1].path, "");
  EXPECT_TRUE(maps[1].writable);
}

TEST(ReadStat, ReadsThisProcess) {
  const auto stat = read_stat(::getpid());
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->parent, ::getppid());
  EXPECT_EQ(stat->state, 'R');
  EXPECT_FALSE(read_stat(1 << 30));
}

TEST(Memory, ReadsUpToWhatIsMissing) {
  const Memory memory(::getpid());
  const std::string text = "some text";
  const auto at = reinterpret_cast<Address>(text.c_str());
  EXPECT_EQ(memory.text(at, 100), text);
  EXPECT_EQ(memory.text(at, 4), "some");
  EXPECT_EQ(memory.text(8, 100), "");
  EXPECT_FALSE(memory.get<int>(8));
  EXPECT_TRUE(memory.allowed());
}

TEST(DescribeAddress, WritesAddressesOfEachFamily) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(41000);
  ::inet_pton(AF_INET, "10.0.0.2", &four.sin_addr);
  EXPECT_EQ(describe_address({reinterpret_cast<const char*>(&four), sizeof four}),
            "10.0.0.2:41000");
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(80);
  ::inet_pton(AF_INET6, "fe80::1", &six.sin6_addr);
  EXPECT_EQ(describe_address({reinterpret_cast<const char*>(&six), sizeof six}), "[fe80::1]:80");
  EXPECT_EQ(describe_address(""), "");
  EXPECT_EQ(describe_address("x"), "");
}

TEST(SystemCalls, SayWhatAStopDoesToThem) {
  std::uint64_t arguments[6] = {};
  EXPECT_EQ(system_call_name(SYS_futex), "futex");
  EXPECT_EQ(system_call_name(9999), "system call 9999");
  EXPECT_TRUE(ends_with_eintr(SYS_epoll_pwait));
  EXPECT_FALSE(ends_with_eintr(SYS_close));
  EXPECT_TRUE(may_move_less(SYS_write, arguments));
  EXPECT_FALSE(may_move_less(SYS_recvfrom, arguments));
  arguments[3] = MSG_WAITALL;
  EXPECT_TRUE(may_move_less(SYS_recvfrom, arguments));
}

}  // namespace
}  // namespace hvdrun
