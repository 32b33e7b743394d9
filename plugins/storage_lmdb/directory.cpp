#include "directory.hpp"

#include "hive/sdk/core.hpp"

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace hive::storage_lmdb {

namespace {

using sdk::failure;

// The on-disk header of LMDB 0.9 (mdb.c: MDB_page, MDB_meta, MDB_db), 64-bit.
struct disk_db {
  std::uint32_t pad;  // of the free list: the page size
  std::uint16_t flags;
  std::uint16_t depth;
  std::uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};
struct disk_meta {
  std::uint64_t page_number;
  std::uint16_t page_pad;
  std::uint16_t page_flags;
  std::uint32_t page_bounds;
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t address, map_size;
  disk_db dbs[2];
  std::uint64_t last_page, transaction;
};
static_assert(sizeof(disk_db) == 48 && sizeof(disk_meta) == 152);

constexpr std::uint32_t lmdb_magic = 0xBEEFC0DE;
constexpr std::uint32_t lmdb_version = 1;
constexpr std::uint16_t meta_page = 0x08;
constexpr std::uint64_t no_page = ~std::uint64_t{0};

class descriptor {
 public:
  descriptor(const std::string &file, int flags, mode_t mode = 0) : fd_(::open(file.c_str(), flags | O_CLOEXEC, mode)) {}
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  descriptor(const descriptor &) = delete;
  descriptor &operator=(const descriptor &) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// A header that holds together, or none.
std::optional<disk_meta> read_meta(int fd, std::uint64_t at) {
  disk_meta meta;
  if (::pread(fd, &meta, sizeof meta, static_cast<off_t>(at)) != static_cast<ssize_t>(sizeof meta)) return std::nullopt;
  const std::uint32_t page = meta.dbs[0].pad;
  const auto root_ok = [&](std::uint64_t root) { return root == no_page || root <= meta.last_page; };
  const bool sane = meta.magic == lmdb_magic && meta.version == lmdb_version && (meta.page_flags & meta_page) && page >= 512 &&
                    page <= 65536 && (page & (page - 1)) == 0 && meta.last_page < (std::uint64_t{1} << 47) / page &&
                    root_ok(meta.dbs[0].root) && root_ok(meta.dbs[1].root);
  return sane ? std::optional(meta) : std::nullopt;
}

}  // namespace

std::string errno_text(int error) { return std::error_code(error, std::generic_category()).message(); }

void make_directory(const std::string &path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), 0750) != 0 && errno != EEXIST)
      throw failure(HIVE_E_CONFIG, "path: cannot create the directory '" + part + "': " + errno_text(errno) +
                                       "; give a directory this user may write");
    if (slash == std::string::npos) break;
  }
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode))
    throw failure(HIVE_E_CONFIG, "path: '" + path + "' is not a directory; give a directory of its own to the store");
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0)
    throw failure(HIVE_E_CONFIG, "path: this user (uid " + std::to_string(::geteuid()) + ") may not write in '" + path +
                                     "': " + errno_text(errno) + "; change its owner or give another directory");
}

directory_lock::directory_lock(const std::string &directory) {
  const std::string file = directory + "/hive.lock";
  fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (fd_ < 0) throw failure(HIVE_E_UNAVAILABLE, "cannot open the lock file '" + file + "': " + errno_text(errno));
  const std::string own = std::to_string(::getpid());
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    char holder[32] = {};
    const ssize_t n = ::pread(fd_, holder, sizeof holder - 1, 0);
    ::close(fd_);
    fd_ = -1;
    if (error != EWOULDBLOCK) throw failure(HIVE_E_UNAVAILABLE, "cannot lock '" + file + "': " + errno_text(error));
    std::string pid(holder, n > 0 ? static_cast<std::size_t>(n) : 0);
    pid = pid.substr(0, pid.find('\n'));
    throw failure(HIVE_E_UNAVAILABLE,
                  pid == own ? "the store in '" + directory + "' is already open in this process (pid " + own +
                                   "); give each instance its own path"
                             : "the store in '" + directory + "' is in use by process " + (pid.empty() ? "(unknown)" : pid) +
                                   "; stop it or give another path");
  }
  const std::string line = own + "\n";
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, line.data(), line.size(), 0) != static_cast<ssize_t>(line.size())) {
    const int error = errno;
    ::close(fd_);
    fd_ = -1;
    throw failure(HIVE_E_UNAVAILABLE, "cannot write our pid to '" + file + "': " + errno_text(error));
  }
}

// The file stays: removing it would let two processes hold locks on two files of one name.
directory_lock::~directory_lock() {
  if (fd_ >= 0) ::close(fd_);
}

void erase_data(const std::string &directory) {
  for (const char *name : {"/data.mdb", "/lock.mdb"}) {
    const std::string file = directory + name;
    if (::unlink(file.c_str()) != 0 && errno != ENOENT)
      throw failure(HIVE_E_UNAVAILABLE, "reset: cannot erase '" + file + "': " + errno_text(errno));
  }
}

std::uint64_t check_data_file(const std::string &file) {
  const descriptor fd(file, O_RDONLY | O_NONBLOCK);
  if (fd.get() < 0) {
    if (errno == ENOENT) return 0;
    throw failure(HIVE_E_UNAVAILABLE, "cannot read '" + file + "': " + errno_text(errno));
  }
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode))
    throw failure(HIVE_E_CORRUPT, "'" + file + "' is not a regular file");
  const auto size = static_cast<std::uint64_t>(st.st_size);
  if (size == 0) return 0;
  const std::string way_out = "; restore it from a backup, or move it away to start empty";
  const auto first = read_meta(fd.get(), 0);
  if (!first) throw failure(HIVE_E_CORRUPT, "'" + file + "' is not an LMDB data file of this format" + way_out);
  const std::uint64_t page = first->dbs[0].pad;
  const auto second = read_meta(fd.get(), page);
  if (!second || second->dbs[0].pad != page)
    throw failure(HIVE_E_CORRUPT, "'" + file + "' is truncated or damaged: its second header is unreadable" + way_out);
  const auto &newest = first->transaction > second->transaction ? *first : *second;
  const std::uint64_t used = (newest.last_page + 1) * page;
  if (size < used)
    throw failure(HIVE_E_CORRUPT, "'" + file + "' is truncated: " + std::to_string(size) + " bytes long, its header needs " +
                                      std::to_string(used) + way_out);
  return used;
}

void extend_file(const std::string &file, std::uint64_t bytes) {
  const descriptor fd(file, O_RDWR);
  struct stat st {};
  if (fd.get() < 0 || ::fstat(fd.get(), &st) != 0)
    throw failure(HIVE_E_UNAVAILABLE, "cannot open '" + file + "': " + errno_text(errno));
  if (static_cast<std::uint64_t>(st.st_size) < bytes && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    throw failure(HIVE_E_EXHAUSTED, "cannot extend '" + file + "' to " + std::to_string(bytes >> 20) +
                                        " MiB: " + errno_text(errno) + "; lower map_size_mb or raise the file size limit");
}

const char *network_file_system(long f_type) {
  switch (static_cast<std::uint32_t>(f_type)) {
    case 0x6969: return "NFS";
    case 0x517B: return "SMB";
    case 0xFF534D42: return "CIFS";
    case 0xFE534D42: return "SMB2";
    case 0x00C36400: return "Ceph";
    case 0x5346414F: return "AFS";
    case 0x01021997: return "9P";
    case 0x0BD00BD0: return "Lustre";
    case 0x7461636F: return "OCFS2";
    case 0x01161970: return "GFS2";
    case 0x47504653: return "GPFS";
    case 0x65735546: return "FUSE";
    default: return nullptr;
  }
}

const char *network_file_system_of(const std::string &path) {
  struct statfs fs {};
  return ::statfs(path.c_str(), &fs) == 0 ? network_file_system(static_cast<long>(fs.f_type)) : nullptr;
}

}  // namespace hive::storage_lmdb
