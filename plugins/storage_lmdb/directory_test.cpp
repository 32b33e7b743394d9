#include "directory.hpp"

#include "record.hpp"

#include <gtest/gtest.h>

namespace hive::storage_lmdb {
namespace {

TEST(lmdb_directory, names_network_file_systems_and_only_those) {
  EXPECT_STREQ(network_file_system(0x6969), "NFS");
  EXPECT_STREQ(network_file_system(static_cast<long>(0xFF534D42)), "CIFS");
  EXPECT_STREQ(network_file_system(static_cast<int>(0xFE534D42)), "SMB2");  // sign-extended on some kernels
  EXPECT_EQ(network_file_system(0xEF53), nullptr);      // ext4
  EXPECT_EQ(network_file_system(0x01021994), nullptr);  // tmpfs
}

TEST(lmdb_record, keeps_short_keys_and_hashes_long_ones_within_the_bound) {
  const std::string short_key(longest_plain_key, 'k');
  EXPECT_EQ(stored_key(short_key), short_key);
  const std::string a(600, 'k'), b = a + "x";
  EXPECT_EQ(stored_key(a).size(), longest_plain_key);
  EXPECT_NE(stored_key(a), stored_key(b));
  EXPECT_EQ(stored_key(a).substr(0, long_key_head), a.substr(0, long_key_head));
}

TEST(lmdb_record, gives_back_what_was_put_in) {
  for (const std::string &key : {std::string("k"), std::string(511, 'a'), std::string(512, 'b'), std::string(1024, 'c')}) {
    const std::string value = record_head(key, 0x0102030405060708) + "value";
    const std::string stored = stored_key(key);
    const auto r = read_record(stored, value);
    ASSERT_TRUE(r);
    EXPECT_EQ(r->key, key);
    EXPECT_EQ(r->value, "value");
    EXPECT_EQ(r->expires_unix_ms, 0x0102030405060708u);
  }
}

TEST(lmdb_record, refuses_bytes_that_are_no_record) {
  for (const std::string &bad : {std::string(), std::string("\x01", 1), std::string(9, '\x07'), std::string(10, '\x02'),
                                 std::string("\x02\0\0\0\0\0\0\0\0\xff\xff" "abc", 14)})
    EXPECT_FALSE(read_record("k", bad)) << bad.size();
}

}  // namespace
}  // namespace hive::storage_lmdb
