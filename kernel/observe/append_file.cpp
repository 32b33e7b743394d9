#include "observe/append_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace hive::observe {

namespace {

// Not create_directories: that gives every folder the mode of the umask alone.
bool make_folders(const std::string &path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    if (::mkdir(path.substr(0, at).c_str(), 0750) != 0 && errno != EEXIST) return false;
  return true;
}

}  // namespace

append_file::~append_file() {
  if (fd_ >= 0) ::close(fd_);
}

status append_file::open(const std::string &path) {
  const auto failed = [&](std::string why) { return fail(errc::unavailable, "cannot be opened: " + std::move(why), path); };
  int fd;
  if (path == "-") {
    fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  } else {
    struct stat there;
    // Opened for reading too, a FIFO needs no reader and does not break when one leaves.
    const bool pipe = ::stat(path.c_str(), &there) == 0 && S_ISFIFO(there.st_mode);
    const int flags = (pipe ? O_RDWR : O_WRONLY | O_CREAT) | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    fd = ::open(path.c_str(), flags, 0600);
    if (fd < 0 && errno == ENOENT) {
      if (!make_folders(path)) return failed(std::strerror(errno));
      fd = ::open(path.c_str(), flags, 0600);
    }
  }
  if (fd < 0) return failed(std::strerror(errno));
  struct stat about;
  if (::fstat(fd, &about) != 0) {
    const int why = errno;
    ::close(fd);
    return failed(std::strerror(why));
  }
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
  regular_ = S_ISREG(about.st_mode);
  own_ = path != "-";
  device_ = about.st_dev;
  inode_ = about.st_ino;
  path_ = path;
  return {};
}

bool append_file::still_there() const {
  if (!own_ || !regular_) return true;
  struct stat there;
  return ::stat(path_.c_str(), &there) == 0 && there.st_dev == device_ && there.st_ino == inode_;
}

bool append_file::deleted() const {
  struct stat about;
  return own_ && regular_ && ::fstat(fd_, &about) == 0 && about.st_nlink == 0;
}

size_t append_file::write(std::string_view bytes, int patience_ms, status &why) {
  size_t done = 0;
  if (deleted()) {
    why = fail(errc::unavailable, "cannot be written: it was deleted and could not be made again", path_);
    return done;
  }
  while (done < bytes.size()) {
    size_t piece = bytes.size() - done;
    if (!regular_) {
      pollfd ready{fd_, POLLOUT, 0};
      const int n = ::poll(&ready, 1, patience_ms);
      if (n == 0 || (n < 0 && errno == EINTR)) return done;
      // A pipe that is writable has room for this much, also when writing would block.
      if (!own_) piece = std::min<size_t>(piece, PIPE_BUF);
    }
    const ssize_t n = ::write(fd_, bytes.data() + done, piece);
    if (n > 0) {
      done += static_cast<size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (patience_ms > 0) patience_ms = 0;
      else return done;
      continue;
    }
    why = fail(errc::unavailable, std::string("cannot be written: ") + (n < 0 ? std::strerror(errno) : "nothing was taken"), path_);
    return done;
  }
  return done;
}

}  // namespace hive::observe
