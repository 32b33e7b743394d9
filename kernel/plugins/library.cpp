#include "plugins/library.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <boost/json.hpp>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "plugins/probe.hpp"

namespace hive::plugins {
namespace {

constexpr off_t size_limit = off_t{256} << 20;

std::string why() { return std::strerror(errno); }

// `what` is "the file" or "the folder".
status safe_owner(const struct stat &st, const std::string &what) {
  if (st.st_uid != 0 && st.st_uid != geteuid()) {
    return fail(errc::denied, what + " belongs to user " + std::to_string(st.st_uid) + "; it must belong to root or to the user we run as (" +
                                  std::to_string(geteuid()) + ")");
  }
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    char mode[8];
    snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(st.st_mode & 07777));
    return fail(errc::denied, what + " may be written by others (mode " + mode + "); run: chmod go-w");
  }
  return {};
}

result<std::string> contents(int fd, off_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(errc::unavailable, "cannot be read: " + (n == 0 ? std::string("it shrank meanwhile") : why()));
    done += static_cast<size_t>(n);
  }
  return bytes;
}

// Both as they really are: no link in either.
bool inside(const std::filesystem::path &file, const std::vector<std::string> &folders) {
  for (const std::string &folder : folders) {
    std::error_code ec;
    const auto real = std::filesystem::canonical(folder, ec);
    if (!ec && std::mismatch(real.begin(), real.end(), file.begin(), file.end()).first == real.end()) return true;
  }
  return false;
}

// What probes have found, by sha256: an unchanged file is probed once.
struct probe_cache {
  std::mutex mutex;
  std::map<std::string, result<std::string>> found;
};
probe_cache &probes() {
  static probe_cache cache;
  return cache;
}

result<std::string> probe_once(const library_file &file, const settings &s) {
  std::lock_guard lock(probes().mutex);
  const auto it = probes().found.find(file.sha256());
  if (it != probes().found.end()) return it->second;
  auto answer = probe(file.fd(), s);
  const bool about_the_file = answer.ok() || (answer.why().code() != errc::unavailable && answer.why().code() != errc::exhausted);
  if (about_the_file) probes().found.emplace(file.sha256(), answer);
  return answer;
}

// dlerror names the descriptor; the caller names the file.
std::string without_descriptor(std::string text, const std::string &descriptor) {
  if (const size_t at = text.find(": " + descriptor + ": "); at != std::string::npos) text = text.substr(at + descriptor.size() + 4);
  if (text.rfind(descriptor + ": ", 0) == 0) text = text.substr(descriptor.size() + 2);
  while (!text.empty() && (text.back() == ']' || text.back() == '\n')) text.pop_back();
  if (const size_t bracket = text.find(" [system:"); bracket != std::string::npos) text.resize(bracket);
  return text;
}

}  // namespace

library_file::library_file(library_file &&o) noexcept
    : path_(std::move(o.path_)), sha256_(std::move(o.sha256_)), fd_(std::exchange(o.fd_, -1)) {}
library_file &library_file::operator=(library_file &&o) noexcept {
  std::swap(path_, o.path_);
  std::swap(sha256_, o.sha256_);
  std::swap(fd_, o.fd_);
  return *this;
}
library_file::~library_file() {
  if (fd_ >= 0) close(fd_);
}
int library_file::release() { return std::exchange(fd_, -1); }

result<library_file> library_file::open(const std::string &path) {
  std::error_code ec;
  const auto real = std::filesystem::canonical(path, ec);
  if (ec) return fail(errc::not_found, "cannot be opened: " + ec.message());
  library_file f;
  f.path_ = real.string();
  const int folder = ::open(real.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return fail(errc::unavailable, "its folder cannot be opened: " + why());
  struct stat st {};
  status safe = fstat(folder, &st) == 0 ? safe_owner(st, "the folder " + real.parent_path().string()) : fail(errc::unavailable, why());
  // Never blocks on a fifo, never follows a link that was put there since.
  if (safe.ok()) f.fd_ = openat(folder, real.filename().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const int error = errno;
  close(folder);
  if (!safe.ok()) return safe;
  if (f.fd_ < 0) return fail(errc::unavailable, std::string("cannot be opened: ") + std::strerror(error));
  if (fstat(f.fd_, &st) != 0) return fail(errc::unavailable, why());
  if (!S_ISREG(st.st_mode)) return fail(errc::invalid, "is not a regular file");
  if (auto owner = safe_owner(st, "the file"); !owner) return owner;
  if (st.st_size > size_limit) return fail(errc::invalid, "is bigger than 256 MiB");
  auto bytes = contents(f.fd_, st.st_size);
  if (!bytes) return bytes.why();
  if (bytes->size() < 64 || bytes->compare(0, 4, "\177ELF") != 0) return fail(errc::invalid, "is not a shared library (no ELF header)");
  f.sha256_ = sha256_hex(*bytes);
  return f;
}

result<plugin_description> load(int fd, bool &mapped) {
  const std::string name = "/proc/self/fd/" + std::to_string(fd);
  static std::mutex mutex;
  static std::vector<boost::dll::shared_library> &libraries = *new std::vector<boost::dll::shared_library>;  // until exit
  std::lock_guard lock(mutex);
  try {
    using boost::dll::load_mode::rtld_local;
    using boost::dll::load_mode::rtld_now;
    libraries.emplace_back(name, rtld_now | rtld_local);
  } catch (const std::exception &e) {
    return fail(errc::invalid, "cannot be loaded: " + without_descriptor(e.what(), name));
  }
  mapped = true;
  boost::dll::shared_library &lib = libraries.back();
  if (!lib.has(HIVE_PLUGIN_ENTRY_NAME)) {
    return fail(errc::invalid, "does not export " HIVE_PLUGIN_ENTRY_NAME ": it is no plugin, or one for another major version of the ABI");
  }
  return describe(lib.get<const hive_plugin *()>(HIVE_PLUGIN_ENTRY_NAME)());
}

result<plugin_description> load_library(const std::string &path, const std::string &pin, bool trusted, const settings &s,
                                        library_facts &facts) {
  auto file = library_file::open(path);
  if (!file) return file.why();
  facts.sha256 = file->sha256();
  if (!(trusted ? inside(file->path(), s.trusted_dirs) : inside(file->path(), s.trusted_dirs) || inside(file->path(), s.dirs))) {
    return fail(errc::denied, "is a link that leads out of the " + std::string(trusted ? "packaged" : "plugin") + " folders, to " + file->path() +
                                  "; copy the file, or name the folder of the real one in plugins.dirs");
  }
  if (!pin.empty()) {
    const std::string wanted = lower(pin.rfind("sha256:", 0) == 0 ? std::string_view(pin).substr(7) : std::string_view(pin));
    if (wanted != facts.sha256) return fail(errc::denied, "is not the pinned file: its sha256 is " + facts.sha256 + ", the pin says " + wanted);
  }
  std::string probed;
  if (!trusted && pin.empty()) {
    auto answer = probe_once(*file, s);
    if (!answer) return answer.why();
    probed = std::move(*answer);
  }
  auto description = load(file->release(), facts.mapped);
  if (description && !probed.empty() && trim(probed) != boost::json::serialize(to_json(*description))) {
    return fail(errc::corrupt, "describes itself one way in the probe process and another way here");
  }
  return description;
}

}  // namespace hive::plugins
