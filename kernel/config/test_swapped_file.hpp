// How the tests of readers change a file under them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/test_folder.hpp"

namespace hive::config {

// A file that is now the one text and now the other, as a mounted directory of a cluster is brought up to date: a link on the
// way to it is renamed over, by a thread and without a pause.
class swapped_file {
 public:
  explicit swapped_file(const std::string (&texts)[2]) {
    for (const char *which : {"0", "1"}) {
      std::filesystem::create_directory(folder_.at(which));
      std::ofstream(folder_.at(which) + "/file") << texts[which[0] - '0'];
    }
    std::filesystem::create_symlink("0", folder_.at("data"));
    swapping_ = std::thread([this] {
      for (int i = 1; !over_; ++i) {
        std::filesystem::create_symlink(std::to_string(i % 2), folder_.at("next"));
        std::filesystem::rename(folder_.at("next"), folder_.at("data"));
      }
    });
  }
  ~swapped_file() {
    over_ = true;
    swapping_.join();
  }
  swapped_file(const swapped_file &) = delete;
  swapped_file &operator=(const swapped_file &) = delete;

  // Until each was read a few hundred times. `which` reads the file at a path and says which text it got, -1 for another one.
  template <class F>
  void expect_whole(F &&which) const {
    constexpr int enough = 500;
    const std::string path = folder_.at("data") + "/file";
    int seen[2] = {};
    for (int i = 0; i < 1'000'000 && std::min(seen[0], seen[1]) < enough; ++i) {
      const int got = which(path);
      ASSERT_GE(got, 0);
      ++seen[got];
    }
    EXPECT_EQ(std::min(seen[0], seen[1]), enough);
  }

 private:
  const test_folder folder_;
  std::atomic<bool> over_ = false;
  std::thread swapping_;
};

}  // namespace hive::config
