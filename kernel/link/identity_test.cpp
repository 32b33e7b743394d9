#include "link/identity.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/test_folder.hpp"
#include "base/text.hpp"
#include "link/auth.hpp"

namespace hive::link {
namespace {

namespace fs = std::filesystem;

key32 counting_seed() {
  key32 seed;
  for (size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<uint8_t>(i);
  return seed;
}

class identity_file : public ::testing::Test {
 protected:
  void write(const std::string &bytes, mode_t mode = 0600) {
    std::ofstream(path, std::ios::binary) << bytes;
    ::chmod(path.c_str(), mode);
  }
  std::string read() {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string good() const {
    const key32 seed = counting_seed();
    const identity id = identity_from_seed(seed);
    return std::string("\x08\x01\x12\x40", 4) + std::string(as_text(seed)) + std::string(as_text(id.ed25519_public));
  }
  test_folder folder;
  fs::path dir = folder.path();
  std::string path = folder.at("agent.key");
};

// Known vectors, here and below: an agent's key file must give the id that it always had, a secret the same keys on both sides.
TEST(identity, a_seed_gives_its_id_and_its_keys) {
  const identity id = identity_from_seed(counting_seed());
  EXPECT_EQ(to_hex(id.ed25519_public), "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8");
  EXPECT_EQ(id.peer_id, "12D3KooWA4Xop1JaT3MHxwYMkCepYsv4iPVopMXwCz5iHYdBfeSB");
  EXPECT_EQ(to_hex(id.curve_public), "4701d08488451f545a409fb58ae3e58581ca40ac3f7f114698cd71deac73ca01");
  const auto from_id = curve_key_of(id.peer_id);
  ASSERT_TRUE(from_id.ok());
  EXPECT_EQ(*from_id, id.curve_public);
}

TEST(identity, router_keys_and_proof_key_follow_the_vectors) {
  const std::string secret = "0123456789abcdef0123456789abcdef";
  EXPECT_EQ(to_hex(router_keys(secret).public_key), "e49cbbef419b25c7477e845c53dbabecae4dba0a0cd2e403547f3ade1d407c30");
  EXPECT_EQ(to_hex(proof_key(secret)), "eba0956c3718472dc659ed1e14256abbba0b536b0c6dc35269108c0741cdcf9a");
}

TEST(identity, texts_that_are_no_peer_ids_have_no_key) {
  const std::string good = identity_from_seed(counting_seed()).peer_id;
  for (const std::string &bad : {std::string(), std::string("12D3KooW"), good + "1", "1" + good, good.substr(1), std::string(52, '1'),
                                std::string(52, 'z'), good.substr(0, 51) + "0", std::string(5000, 'A'),
                                std::string("QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N")})
    EXPECT_FALSE(curve_key_of(bad).ok()) << bad;
}

TEST(proof, every_field_and_the_role_change_it) {
  const digest32 key = proof_key("0123456789abcdef0123456789abcdef");
  const proof_input base{1, {1}, {2}, "peer", {3}, {4}, {5}};
  const digest32 agent = make_proof(key, role::agent, base);
  EXPECT_NE(agent, make_proof(key, role::router, base));
  std::vector<proof_input> others(7, base);
  others[0].version = 2;
  others[1].router_curve[31] = 1;
  others[2].agent_curve[31] = 1;
  others[3].peer_id = "peer2";
  others[4].agent_nonce[31] = 1;
  others[5].router_nonce[31] = 1;
  others[6].metadata_hash[31] = 1;
  for (const auto &o : others) EXPECT_EQ(find_proof({&key, 1}, role::agent, o, agent), -1);
  const digest32 keys[2] = {proof_key("another secret of thirty-two bytes"), key};
  EXPECT_EQ(find_proof(keys, role::agent, base, agent), 1);
}

TEST_F(identity_file, is_created_once_and_found_again) {
  const auto first = load_or_create_identity(path);
  ASSERT_TRUE(first.ok()) << first.why().text();
  struct stat st {};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_EQ(st.st_size, 68);
  const auto second = load_or_create_identity(path);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first->peer_id, second->peer_id);
  EXPECT_TRUE(first->peer_id.starts_with("12D3KooW"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir), {}), 1);
}

TEST_F(identity_file, of_the_libp2p_layout_gives_the_same_id) {
  write(good());
  const auto id = load_or_create_identity(path);
  ASSERT_TRUE(id.ok()) << id.why().text();
  EXPECT_EQ(id->peer_id, "12D3KooWA4Xop1JaT3MHxwYMkCepYsv4iPVopMXwCz5iHYdBfeSB");
}

TEST_F(identity_file, that_is_wrong_is_refused_and_left_alone) {
  std::string wrong_key = good();
  wrong_key[67] = static_cast<char>(wrong_key[67] ^ 1);
  std::string wrong_type = good();
  wrong_type[1] = 0;
  for (const std::string &bytes : {std::string(), good().substr(0, 67), good() + "x", wrong_key, wrong_type}) {
    write(bytes);
    const auto id = load_or_create_identity(path);
    ASSERT_FALSE(id.ok());
    EXPECT_EQ(id.why().code(), errc::corrupt);
    EXPECT_EQ(id.why().path(), path);
    EXPECT_EQ(read(), bytes);
  }
}

TEST_F(identity_file, that_others_may_read_is_refused) {
  write(good(), 0640);
  const auto id = load_or_create_identity(path);
  ASSERT_FALSE(id.ok());
  EXPECT_NE(id.why().message().find("chmod 600"), std::string::npos);
}

TEST_F(identity_file, is_not_created_in_a_directory_that_does_not_exist_or_over_one) {
  EXPECT_FALSE(load_or_create_identity((dir / "none" / "agent.key").string()).ok());
  EXPECT_FALSE(load_or_create_identity(dir.string()).ok());
}

// Naive variant: two processes with one file throw each other out for ever.
TEST_F(identity_file, is_held_by_one_process_at_a_time) {
  ASSERT_TRUE(load_or_create_identity(path).ok());
  {
    const auto first = identity_lock::take(path);
    ASSERT_TRUE(first.ok()) << first.why().text();
    const auto second = identity_lock::take(path);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.why().code(), errc::conflict);
    EXPECT_EQ(second.why().path(), path);
    EXPECT_TRUE(load_or_create_identity(path).ok()) << "reading it is no matter of the lock";
  }
  EXPECT_TRUE(identity_lock::take(path).ok());
}

TEST(secrets, are_one_a_line_and_long_enough) {
  const std::string a(32, 'a'), b(40, 'b');
  const auto two = parse_secrets("\xEF\xBB\xBF  " + a + "\r\n\n" + b + "\n", "file");
  ASSERT_TRUE(two.ok()) << two.why().text();
  EXPECT_EQ(*two, (std::vector<std::string>{a, b}));
  for (const std::string &bad : {std::string(), std::string(" \n\n"), std::string(31, 'x'), a + "\nshort\n"}) {
    const auto refused = parse_secrets(bad, "file");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.why().path(), "file");
    EXPECT_EQ(refused.why().message().find("short"), std::string::npos) << "a secret must not be repeated";
  }
}

}  // namespace
}  // namespace hive::link
