// One shared library on disk, and the rules by which it comes into the process (docs/abi/rules.md, "Loading").
// [control] only. A library that was loaded is never unmapped, and its descriptor never closed: the loader of glibc knows
// an open library by the name it was opened with, so a reused /proc/self/fd/N would hand back the old code.
#pragma once

#include <memory>
#include <string>

#include "plugins/description.hpp"
#include "plugins/settings.hpp"

namespace hive::plugins {

// A file that was opened, checked and hashed, and not yet loaded.
class library_file {
 public:
  // Refuses what is not a regular file, is too big, belongs to somebody else, or lies where others may write.
  static result<library_file> open(const std::string &path);
  library_file(library_file &&) noexcept;
  library_file &operator=(library_file &&) noexcept;
  ~library_file();

  const std::string &path() const { return path_; }       // real path
  const std::string &sha256() const { return sha256_; }   // 64 hex digits, of what the descriptor holds
  int fd() const { return fd_; }
  int release();

 private:
  library_file() = default;
  std::string path_, sha256_;
  int fd_ = -1;
};

// Loads the descriptor and describes what its entry function answers. Also used by hive-plugin-check. From here on the
// descriptor stays open for the life of the process. `mapped`: the library is in this process, also when it is refused.
result<plugin_description> load(int fd, bool &mapped);

// What is known of a library whatever becomes of it; set as it becomes known.
struct library_facts {
  std::string sha256;
  bool mapped = false;
};

// Open, compare with the pin, probe unless pinned or trusted, load. The real file lies in a folder of the settings, for a
// trusted one in a trusted folder: a link that leads elsewhere is refused.
result<plugin_description> load_library(const std::string &path, const std::string &pin, bool trusted, const settings &, library_facts &);

}  // namespace hive::plugins
