// Identity files, peer ids and secret files. A file that is refused is left as it is.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"
#include "fuzz.hpp"
#include "link/identity.hpp"

using namespace hive;
using fuzz::must;

namespace {

// A file in memory, reachable by a path, whose bytes are the input.
struct memory_file {
  explicit memory_file(std::string_view text) {
    must(::ftruncate(descriptor, 0) == 0 && ::pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()), "a memory file");
  }
  static std::string path() { return "/proc/self/fd/" + std::to_string(descriptor); }
  static std::string bytes() {
    struct stat st {};
    must(::fstat(descriptor, &st) == 0, "a memory file");
    std::string out(static_cast<size_t>(st.st_size), '\0');
    must(::pread(descriptor, out.data(), out.size(), 0) == st.st_size, "a memory file");
    return out;
  }
  static int open() {
    const int fd = ::memfd_create("identity", MFD_CLOEXEC);
    must(fd >= 0 && ::fchmod(fd, 0600) == 0, "a memory file");
    return fd;
  }
  static inline const int descriptor = open();
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t kind = in.byte();
  const fuzz::exact_copy copy(in.rest());
  const std::string_view text = copy.text();
  if (kind % 3 == 0) {
    const memory_file file(text);
    const auto id = link::load_or_create_identity(memory_file::path());
    must(memory_file::bytes() == text, "the file is left as it is");
    if (!id) {
      must(!id.why().message().empty(), "a refusal says why");
      return 0;
    }
    must(text.size() == 68, "an identity has 68 bytes");
    const auto curve = link::curve_key_of(id->peer_id);
    must(curve && *curve == id->curve_public, "the peer id names the key");
  } else if (kind % 3 == 1) {
    if (link::curve_key_of(text)) must(text.starts_with("12D3KooW"), "only such a peer id has a key");
  } else {
    const auto secrets = link::parse_secrets(text, "SECRET");
    if (!secrets) {
      must(!secrets.why().message().empty(), "a refusal says why");
      // Other secrets of these lengths get the same words.
      std::string other(text);
      for (size_t i = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; i < other.size(); ++i)
        if (trim(text.substr(i, 1)).size() == 1) other[i] = 'z';
      const auto same = link::parse_secrets(other, "SECRET");
      must(!same && same.why().text() == secrets.why().text(), "and nothing of the secret");
      return 0;
    }
    must(secrets->size() <= text.size(), "bounded secrets");
    for (const auto &s : *secrets) must(s.size() >= 32 && text.find(s) != std::string_view::npos, "a secret stands in its file");
  }
  return 0;
}
