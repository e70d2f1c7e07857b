#include "channels/ssh_failure.hpp"

#include "wait_status.hpp"

#include <csignal>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// The end of an ssh to the host "n3".
struct SshEnd {
  int wait_status;
  const char* errors;
  const char* expected;
};

class SshFailure : public testing::TestWithParam<SshEnd> {};

TEST_P(SshFailure, IsExplained) {
  EXPECT_EQ(explain_ssh_failure(GetParam().wait_status, GetParam().errors, "n3", "/opt/hvdrun"),
            GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Ends, SshFailure,
    testing::Values(
        SshEnd{exited(255), "No ED25519 host key is known.\r\nHost key verification failed.\r\n",
               "its key is not known here, or has changed; compare it and log in once with ssh, or "
               "take new ones with --ssh-accept-new (Host key verification failed.)"},
        SshEnd{
            exited(255),
            "ED25519 host key for n3 was revoked and you have requested strict checking.\r\n"
            "Host key verification failed.\r\n",
            "its key has been revoked: a file of known hosts has a @revoked line for it (ED25519 "
            "host key for HOST was revoked and you have requested strict checking.)"},
        SshEnd{exited(255), "ann@n3: Permission denied (publickey).\r\n",
               "the login was refused; `ssh HOST true` must work without a password: put a key "
               "there, or give one with -i (ann@HOST: Permission denied (publickey).)"},
        SshEnd{
            exited(255), "ssh: Could not resolve hostname n9: Name or service not known\r\n",
            "there is no such name; check -H or the hostfile (ssh: Could not resolve hostname n9: "
            "Name or service not known)"},
        SshEnd{
            exited(255), "ssh: connect to host n3 port 22: Connection refused\r\n",
            "no ssh server answers there; check the host and the port (-p) (ssh: connect to host "
            "HOST port 22: Connection refused)"},
        SshEnd{exited(255), "n30 and n3-x are not n3\n", "n30 and n3-x are not HOST"},
        SshEnd{exited(255), "", "ssh failed without a word"},
        SshEnd{exited(255), "\r\n", "ssh failed without a word"},
        SshEnd{exited(255),
               "kex_exchange_identification: Connection closed by remote host\r\n"
               "Connection closed by n3 port 22\r\n",
               "an ssh server on the way closed the connection before the login; it may have had "
               "too many at once: raise MaxStartups in its sshd_config (Connection closed by HOST "
               "port 22)"},
        SshEnd{
            exited(127), "sh: 1: exec: /opt/hvdrun: not found\n",
            "hvdrun not found at /opt/hvdrun; install the same version there, or say where it is "
            "with --agent-path"},
        SshEnd{exited(127),
               "/opt/hvdrun: error while loading shared libraries: libfmt.so.9: cannot open\n",
               "a library of hvdrun is missing there: /opt/hvdrun: error while loading shared "
               "libraries: libfmt.so.9: cannot open"},
        SshEnd{exited(126), "sh: 1: exec: /opt/hvdrun: Permission denied\n",
               "/opt/hvdrun cannot be executed there: sh: 1: exec: /opt/hvdrun: Permission denied"},
        SshEnd{exited(2), "motd\nhvdrun: here is version 0.0\n", "hvdrun: here is version 0.0"},
        SshEnd{exited(1), "", "hvdrun ended there with exit code 1 and no message"},
        SshEnd{exited(1), "\n", "hvdrun ended there with exit code 1 and no message"},
        SshEnd{SIGKILL, "", "ssh was killed by SIGKILL"}));

TEST(SshFailure, ExplainsALostConnection) {
  EXPECT_EQ(explain_lost_connection(exited(255), "Timeout, server n3 not responding.\r\n"),
            "ssh: Timeout, server n3 not responding.");
  EXPECT_EQ(explain_lost_connection(SIGKILL, "a warning of the login's\n"),
            "ssh was killed by SIGKILL");
  EXPECT_EQ(explain_lost_connection(exited(125), "hvdrun: of the agent\n"), "");
}

TEST(SshFailure, DistinguishesAConnectionThatWasCutBeforeTheLogin) {
  EXPECT_TRUE(
      was_cut_before_login("kex_exchange_identification: read: Connection reset by peer\n"));
  EXPECT_TRUE(was_cut_before_login("Connection closed by UNKNOWN port 65535\r\n"));
  EXPECT_TRUE(was_cut_before_login("libssh: Socket error: disconnected"));
  EXPECT_FALSE(was_cut_before_login(
      "channel 0: open failed: connect failed: Connection refused\r\nstdio forwarding failed\r\n"
      "kex_exchange_identification: Connection closed by remote host\r\n"));
  EXPECT_FALSE(
      was_cut_before_login("sh: 1: exec: nc: not found\nkex_exchange_identification: Connection "
                           "closed by remote host\n"));
  EXPECT_FALSE(was_cut_before_login("Read from remote host n3: Connection reset by peer\r\n"))
      << "after the login";
  EXPECT_FALSE(was_cut_before_login(""));
}

}  // namespace
}  // namespace hvdrun
