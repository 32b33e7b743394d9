#include "config/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/digest.hpp"
#include "base/text.hpp"

namespace hive::config {
namespace {

constexpr size_t max_secret_file = 64 * 1024;
constexpr std::string_view bom = "\xef\xbb\xbf";

}  // namespace

std::string_view trim_secret(std::string_view text) {
  for (;;) {
    const size_t before = text.size();
    text = trim(text);
    if (text.starts_with(bom)) text.remove_prefix(bom.size());
    if (text.ends_with(bom)) text.remove_suffix(bom.size());
    if (text.size() == before) return text;
  }
}

result<std::string> clean_secret(std::string_view text, const std::string &source, size_t min_bytes) {
  const std::string_view secret = trim_secret(text);
  for (const char c : secret)
    if (c <= ' ' || c > '~')
      return fail(errc::invalid, "the secret holds a byte that is not printable ASCII, or a space; write it as one word", source);
  if (secret.size() < min_bytes)
    return fail(errc::invalid,
                "the secret has " + std::to_string(secret.size()) + " bytes; at least " + std::to_string(min_bytes) +
                    " are needed (for example: openssl rand -hex 32)",
                source);
  return std::string(secret);
}

namespace {

result<std::vector<std::string>> secrets_of(std::string_view text, const std::string &file, size_t min_bytes) {
  std::vector<std::string> out;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    const std::string_view line = trim_secret(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    auto one = clean_secret(line, file + ":" + std::to_string(number), min_bytes);
    if (!one) {
      for (std::string &before : out) wipe(before);
      return one.why();
    }
    out.push_back(*std::move(one));
  }
  if (out.empty()) return fail(errc::invalid, "holds no secret; write one of at least " + std::to_string(min_bytes) + " bytes", file);
  return out;
}

}  // namespace

// A pipe without a writer would hold whoever opens it, and one that nobody ends whoever reads it: on SIGHUP the router.
result<std::vector<std::string>> read_secrets(const std::string &file, size_t min_bytes) {
  const int in = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (in < 0) return fail(errc::invalid, std::string("cannot be opened: ") + std::strerror(errno), file);
  struct stat about;
  if (::fstat(in, &about) != 0 || !S_ISREG(about.st_mode)) {
    ::close(in);
    return fail(errc::invalid, "not a regular file", file);
  }
  std::string text(max_secret_file + 1, '\0');
  size_t have = 0;
  ssize_t n = 1;
  while (have < text.size() && n != 0) {
    n = ::read(in, text.data() + have, text.size() - have);
    if (n > 0) have += static_cast<size_t>(n);
    else if (n < 0 && errno != EINTR) break;
  }
  const bool broken = n < 0;
  ::close(in);
  if (broken || have > max_secret_file) {
    wipe(text);
    return fail(errc::invalid, broken ? "cannot be read" : "larger than 64 KiB, so not a secret file", file);
  }
  auto secrets = secrets_of(std::string_view(text).substr(0, have), file, min_bytes);
  wipe(text);
  return secrets;
}

bool everybody_may(const std::string &file, mode_t rights) {
  struct stat about {};
  return !file.empty() && ::stat(file.c_str(), &about) == 0 && (about.st_mode & rights) != 0;
}

}  // namespace hive::config
