#include "remote/ssh_config.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Part of what OpenSSH 9.2 prints.
const std::string kPlain =
    "host n3\nuser ann\nhostname n3.cluster\nport 2222\naddressfamily any\ncontrolmaster false\n"
    "gssapiauthentication yes\nhostbasedauthentication no\nidentitiesonly no\n"
    "pubkeyauthentication true\nstricthostkeychecking ask\nverifyhostkeydns false\n"
    "ciphers aes128-ctr,aes256-ctr\nhostkeyalgorithms ssh-ed25519\nkexalgorithms a,b\n"
    "macs hmac-sha2-256\npubkeyacceptedalgorithms rsa-sha2-512\nsecuritykeyprovider internal\n"
    "identityfile ~/.ssh/id_rsa\nidentityfile /keys/my key\ncanonicaldomains none\n"
    "globalknownhostsfile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2\n"
    "userknownhostsfile /home/ann/.ssh/known_hosts /home/ann/.ssh/known_hosts2\nsendenv LANG\n";

TEST(SshConfig, IsWhatSshSays) {
  const auto config = parse_ssh_config(kPlain);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->host, "n3.cluster");
  EXPECT_EQ(config->user, "ann");
  EXPECT_EQ(config->port, 2222);
  EXPECT_EQ(config->identities, (std::vector<std::string>{"~/.ssh/id_rsa", "/keys/my key"}));
  EXPECT_EQ(config->known_hosts, "/home/ann/.ssh/known_hosts");
  EXPECT_EQ(config->global_known_hosts, "/etc/ssh/ssh_known_hosts");
  EXPECT_FALSE(config->accepts_new_keys);
  EXPECT_EQ(config->ciphers, "aes128-ctr,aes256-ctr");
  EXPECT_EQ(config->macs, "hmac-sha2-256");
  EXPECT_EQ(config->key_exchanges, "a,b");
  EXPECT_EQ(config->host_keys, "ssh-ed25519");
  EXPECT_EQ(config->public_keys, "rsa-sha2-512");
}

TEST(SshConfig, NewKeysAreTakenWhereTheUserSaysSo) {
  const auto config = parse_ssh_config(kPlain + "stricthostkeychecking accept-new\n");
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->accepts_new_keys);
}

TEST(SshConfig, NamesWhatOnlySshCanDo) {
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
    const auto config = parse_ssh_config(kPlain + line + "\n");
    ASSERT_FALSE(config) << line;
    EXPECT_EQ(config.error().message, name);
    if (line == "pubkeyauthentication false") continue;
    EXPECT_TRUE(parse_ssh_config(kPlain + line.substr(0, line.find(' ')) + " none\n")) << line;
  }
}

TEST(SshConfig, RefusesWhatIsNone) {
  for (const std::string text :
       {"", "\n\n", "hostname\n", "hostname n1\n", "user ann\n", "hostname n1\nuser ann\nport 0\n",
        "hostname n1\nuser a\nport x\n", "hostname n1\nuser a\nport 70000\n", "ssh: no such thing"})
    EXPECT_FALSE(parse_ssh_config(text)) << text;
}

}  // namespace
}  // namespace hvdrun
