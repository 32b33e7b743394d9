// The directory of a store before LMDB may map it: made, locked for this process, its data file looked at with reads.
// LMDB itself lets a second process, and a second environment of one process, open the same files, and a data file that
// is shorter than its header says kills the process with SIGBUS: both are refused here. One thread at a time.
#pragma once

#include <cstdint>
#include <string>

namespace hive::storage_lmdb {

// Makes the directory (0750, parents too). Throws sdk::failure.
void make_directory(const std::string &path);

// The lock on a directory: `hive.lock` with flock, our pid as text in it. Released when the object dies.
class directory_lock {
 public:
  // Throws HIVE_E_UNAVAILABLE naming the pid that holds it.
  explicit directory_lock(const std::string &directory);
  ~directory_lock();
  directory_lock(const directory_lock &) = delete;
  directory_lock &operator=(const directory_lock &) = delete;

 private:
  int fd_ = -1;
};

// Removes LMDB's two files, whatever is in them; the lock and what else lies there stay. Requires: the directory's lock is held.
// Throws HIVE_E_UNAVAILABLE.
void erase_data(const std::string &directory);

// Reads the two header pages of `data.mdb`. Answers the bytes in use (pages times page size), 0 when there is no file
// yet. Throws HIVE_E_CORRUPT when it is no LMDB file or shorter than its pages.
std::uint64_t check_data_file(const std::string &file);

// Makes the file at least `bytes` long (sparse), so that every page LMDB may map exists.
void extend_file(const std::string &file, std::uint64_t bytes);

// The name of a network file system by its statfs type, null for a local one.
const char *network_file_system(long f_type);
// The same for the file system that holds `path`.
const char *network_file_system_of(const std::string &path);

// "No such file or directory" and so on; any thread.
std::string errno_text(int error);

}  // namespace hive::storage_lmdb
