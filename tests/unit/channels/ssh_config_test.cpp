#include "channels/ssh_config.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// A part of the output of `ssh -G` of OpenSSH 9.2.
const std::string kPlain =
    "host n3\nuser ann\nhostname n3.cluster\nport 2222\naddressfamily any\ncontrolmaster false\n"
    "gssapiauthentication yes\nhostbasedauthentication no\nidentitiesonly no\n"
    "pubkeyauthentication true\nstricthostkeychecking ask\nverifyhostkeydns false\n"
    "ciphers aes128-ctr,aes256-ctr\nhostkeyalgorithms ssh-ed25519\nkexalgorithms a,b\n"
    "macs hmac-sha2-256\npubkeyacceptedalgorithms rsa-sha2-512\nsecuritykeyprovider internal\n"
    "identityfile ~/.ssh/id_rsa\nidentityfile /keys/my key\ncanonicaldomains none\n"
    "globalknownhostsfile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2\n"
    "userknownhostsfile /home/ann/.ssh/known_hosts /home/ann/.ssh/known_hosts2\nsendenv LANG\n";

Result<SshConfig> parse(const std::string& text) {
  return parse_ssh_config(text, "/home/ann");
}

TEST(SshConfig, ReadsTheOutputOfSsh) {
  const auto config = parse(kPlain);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->host, "n3.cluster");
  EXPECT_EQ(config->user, "ann");
  EXPECT_EQ(config->port, 2222);
  EXPECT_EQ(config->identities, (std::vector<std::string>{"~/.ssh/id_rsa", "/keys/my key"}));
  EXPECT_EQ(config->known_hosts, "/home/ann/.ssh/known_hosts");
  EXPECT_EQ(config->global_known_hosts, "/etc/ssh/ssh_known_hosts");
  EXPECT_EQ(config->unread_known_hosts,
            (std::vector<std::string>{"/etc/ssh/ssh_known_hosts2", "/home/ann/.ssh/known_hosts2"}));
  EXPECT_FALSE(config->accepts_new_keys);
  EXPECT_EQ(config->ciphers, "aes128-ctr,aes256-ctr");
  EXPECT_EQ(config->macs, "hmac-sha2-256");
  EXPECT_EQ(config->key_exchanges, "a,b");
  EXPECT_EQ(config->host_keys, "ssh-ed25519");
  EXPECT_EQ(config->public_keys, "rsa-sha2-512");
}

TEST(SshConfig, KnowsWhetherSshConnectsDirectly) {
  EXPECT_TRUE(ssh_facts(kPlain).direct);
  EXPECT_TRUE(ssh_facts(kPlain + "proxycommand none\ncontrolpath none\n").direct);
  EXPECT_FALSE(ssh_facts(kPlain + "proxyjump bastion\n").direct);
  EXPECT_FALSE(ssh_facts(kPlain + "proxycommand nc %h %p\n").direct);
  EXPECT_FALSE(ssh_facts(kPlain + "controlmaster auto\n").direct);
  EXPECT_FALSE(ssh_facts(kPlain + "controlpath /tmp/%C\n").direct);
  EXPECT_FALSE(ssh_facts("").direct) << "without output of ssh";
}

TEST(SshConfig, NamesTheFirstServerOfALogin) {
  const auto server = [](const std::string& more) { return ssh_facts(kPlain + more).server; };
  EXPECT_EQ(server(""), server("proxyjump none\n"));
  EXPECT_NE(server("").find(':'), std::string::npos) << "host and port";
  EXPECT_EQ(server("proxyjump first,second\n"), "first");
  EXPECT_EQ(server("proxycommand ssh -W %h:%p gate\n"), "ssh -W %h:%p gate");
  EXPECT_EQ(ssh_facts("").server, "");
}

TEST(SshConfig, OverridesSettingsThatPreventACommand) {
  const auto overrides = [](const std::string& more) { return ssh_facts(kPlain + more).overrides; };
  EXPECT_TRUE(overrides("sessiontype default\nstdinnull no\n").empty());
  EXPECT_EQ(overrides("remotecommand tmux attach\n"),
            (std::vector<std::string>{"-o", "RemoteCommand=none"}));
  EXPECT_EQ(overrides("sessiontype none\nstdinnull yes\n"),
            (std::vector<std::string>{"-o", "SessionType=default", "-o", "StdinNull=no"}));
}

TEST(SshConfig, UsesTheUsersConnectTimeout) {
  EXPECT_FALSE(parse(kPlain + "connecttimeout none\n")->connect_timeout);
  EXPECT_EQ(parse(kPlain + "connecttimeout 5\n")->connect_timeout, std::chrono::seconds(5));
  EXPECT_FALSE(parse(kPlain + "connecttimeout soon\n"));
}

TEST(SshConfig, AcceptsNewKeysIfTheUserAllowsThem) {
  const auto config = parse(kPlain + "stricthostkeychecking accept-new\n");
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->accepts_new_keys);
}

TEST(SshConfig, NamesSettingsThatLibsshLacks) {
  for (const auto& [line, name] : std::vector<std::pair<std::string, std::string>>{
           {"proxyjump bastion", "ProxyJump"},
           {"proxycommand nc %h %p", "ProxyCommand"},
           {"controlmaster auto", "ControlMaster"},
           {"controlpath /tmp/%C", "ControlPath"},
           {"certificatefile ~/.ssh/id-cert.pub", "CertificateFile"},
           {"pkcs11provider /usr/lib/p11.so", "PKCS11Provider"},
           {"knownhostscommand /bin/keys", "KnownHostsCommand"},
           {"hostbasedauthentication yes", "HostbasedAuthentication"},
           {"hostkeyalias n", "HostKeyAlias"},
           {"identitiesonly yes", "IdentitiesOnly"},
           {"identityagent /run/agent", "IdentityAgent"},
           {"stricthostkeychecking false", "StrictHostKeyChecking no"},
           {"pubkeyauthentication false", "PubkeyAuthentication"},
           {"bindaddress 10.0.0.1", "BindAddress"},
           {"addressfamily inet6", "AddressFamily"}}) {
    const auto config = parse(kPlain + line + "\n");
    ASSERT_FALSE(config) << line;
    EXPECT_EQ(config.error().message, name);
    if (line == "pubkeyauthentication false") continue;
    EXPECT_TRUE(parse(kPlain + line.substr(0, line.find(' ')) + " none\n")) << line;
  }
}

TEST(SshConfig, AcceptsOnlyAbsolutePathsOfKnownHostsFiles) {
  const auto config = parse(kPlain + "userknownhostsfile ~/hosts\n");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->known_hosts, "/home/ann/hosts");
  for (const std::string value : {"none", "relative", "~bob/hosts", "/with a blank", "/hosts-%h"}) {
    const auto refused = parse(kPlain + "userknownhostsfile " + value + "\n");
    ASSERT_FALSE(refused) << value;
    EXPECT_NE(refused.error().message.find("UserKnownHostsFile"), std::string::npos)
        << refused.error().message;
  }
}

TEST(KnownHosts, WithPlainKeysAreReadByLibssh) {
  EXPECT_EQ(beyond_libssh("# @revoked in a comment\n\n  \n"
                          "n1,10.0.0.1 ssh-ed25519 AAAA a comment @ it\n"
                          "|1|c2FsdA==|aGFzaA== ecdsa-sha2-nistp256 AAAAE2Vj\n"
                          "\t[n2]:2222\tssh-rsa AAAAB3NzaC1yc2E=\r\n*.cluster ssh-ed25519 AAAA"),
            "");
}

TEST(KnownHosts, WithOtherLinesNeedSsh) {
  const std::string plain = "n1 ssh-ed25519 AAAA\n";
  for (const auto& [line, name] : std::vector<std::pair<std::string, std::string>>{
           {"@revoked * ssh-ed25519 AAAA", "@revoked"},
           {"  @cert-authority *.cluster ssh-rsa AAAA", "@cert-authority"},
           {"*,!n9 ssh-ed25519 AAAA", "a negated pattern"},
           {"n1 ssh-new-type AAAA", "a key of type \"ssh-new-type\""},
           {"n1 1024 35 1234567", "a key of type \"1024\""},
           {"n1", "a key of type \"\""},
           {"n1 ssh-ed25519", "a key it cannot read"},
           {"n1 ssh-ed25519 AAA", "a key it cannot read"},
           {"n1 ssh-ed25519 A(AA", "a key it cannot read"},
           {"n1 ssh-rsa " + std::string(9000, 'A'), "a key it cannot read"}}) {
    EXPECT_EQ(beyond_libssh(plain + line + "\n" + plain), name) << line;
    EXPECT_EQ(beyond_libssh(line), name) << line;
  }
}

TEST(SshConfig, RefusesInvalidOutput) {
  for (const std::string text :
       {"", "\n\n", "hostname\n", "hostname n1\n", "user ann\n", "hostname n1\nuser ann\nport 0\n",
        "hostname n1\nuser a\nport x\n", "hostname n1\nuser a\nport 70000\n", "ssh: no such thing"})
    EXPECT_FALSE(parse(text)) << text;
}

}  // namespace
}  // namespace hvdrun
