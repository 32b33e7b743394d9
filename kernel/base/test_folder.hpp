// For tests only.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace hive {

// A folder of one test's own, gone with it. Every test case runs as a process, two at a time: files with fixed names would meet.
class test_folder {
 public:
  test_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hive-test-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("no folder " + pattern);
    path_ = pattern;
  }
  ~test_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  test_folder(const test_folder &) = delete;
  test_folder &operator=(const test_folder &) = delete;

  const std::filesystem::path &path() const { return path_; }
  std::string at(const std::string &name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace hive
