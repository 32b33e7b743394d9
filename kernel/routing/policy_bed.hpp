// A folder of policy files and what the tests of policies write into it.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "base/test_folder.hpp"
#include "routing/fixture.hpp"
#include "routing/policy_set.hpp"

namespace hive::routing::testing {

inline std::string document_for(const std::string &models, const std::string &more = {}) {
  return "models: [" + models + "]\nrouting_policy: {strategy: least-loaded" + more + "}\n";
}
inline std::string everybody(const std::string &more = {}) { return "routing_policy: {strategy: least-loaded" + more + "}\n"; }

struct policy_bed : ::testing::Test {
  // `age` seconds after the first moment of 2020, so that the order of files is the test's and not the clock's.
  void write(const std::string &name, const std::string &text, int age = 0) {
    const std::string path = folder.at(name);
    std::ofstream(path, std::ios::trunc) << text;
    const timespec when[2] = {{1577836800 + age, 0}, {1577836800 + age, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), when, 0), 0);
  }
  void remove(const std::string &name) { std::filesystem::remove(folder.at(name)); }
  static std::string owner(const policy_set &set, const std::string &model) {
    const held_policy *held = set.owner_of(model, "");
    return held ? held->document->name : std::string();
  }

  test_folder folder;
  test_source source;
};

}  // namespace hive::routing::testing
