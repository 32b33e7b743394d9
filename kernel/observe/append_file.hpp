// A file that lines are appended to and that others rotate: renamed, truncated, deleted, full, a pipe nobody reads. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace hive::observe {

class append_file {
 public:
  append_file() = default;
  ~append_file();
  append_file(const append_file &) = delete;
  append_file &operator=(const append_file &) = delete;

  // "-" is stdout. Missing folders are made with mode 0750, a missing file with 0600 (less the umask); the mode of a file that
  // is there stays as it is. Replaces what is open only on success.
  status open(const std::string &path);
  bool is_open() const { return fd_ >= 0; }

  // False when the path names another file by now, or none: it was renamed or deleted.
  bool still_there() const;

  // Takes as much of the bytes as it can now and answers how many: none of a file without a name, which nobody would ever read.
  // Waits at most `patience_ms` for a reader of a pipe. Fewer than all with an ok status: nobody reads.
  size_t write(std::string_view bytes, int patience_ms, status &why);

 private:
  bool deleted() const;

  int fd_ = -1;
  bool regular_ = false;
  bool own_ = true;         // false: stdout, whose description others share, so it is never made non-blocking
  uint64_t device_ = 0, inode_ = 0;
  std::string path_;
};

}  // namespace hive::observe
