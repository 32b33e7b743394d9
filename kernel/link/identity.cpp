#include "link/identity.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "base/digest.hpp"
#include "base/text.hpp"

namespace hive::link {
namespace {

constexpr size_t file_bytes = 68;
constexpr uint8_t file_prefix[4] = {0x08, 0x01, 0x12, 0x40};
constexpr uint8_t id_prefix[6] = {0x00, 0x24, 0x08, 0x01, 0x12, 0x20};
constexpr size_t id_bytes = sizeof id_prefix + 32;

struct descriptor {
  int fd = -1;
  ~descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

status trouble(const std::string &path, const char *doing) {
  const int e = errno;
  return fail(e == EACCES || e == EPERM ? errc::denied : errc::unavailable,
              std::string("identity file: ") + doing + ": " + std::strerror(e) +
                  "; it must be a file that can be read, or be in a directory in which it can be made",
              path);
}

status corrupt(const std::string &path, const std::string &what) {
  return fail(errc::corrupt, "identity file: " + what + "; expected 68 bytes: 08 01 12 40, an Ed25519 seed and its public key. "
              "The file is left as it is; restore it from a backup, or move it away to get a new identity", path);
}

// True = read, false = there is no such file.
result<bool> read_file(const std::string &path, uint8_t (&bytes)[file_bytes]) {
  descriptor d{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (d.fd < 0) {
    if (errno == ENOENT) return false;
    return trouble(path, "cannot open");
  }
  struct stat st {};
  if (::fstat(d.fd, &st) != 0) return trouble(path, "cannot stat");
  if (!S_ISREG(st.st_mode)) return corrupt(path, "not a regular file");
  if ((st.st_mode & 077) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(st.st_mode & 07777));
    return fail(errc::denied, std::string("identity file: mode ") + mode + " lets others read the key; run chmod 600 on it", path);
  }
  if (st.st_size != static_cast<off_t>(file_bytes)) return corrupt(path, std::to_string(st.st_size) + " bytes");
  size_t have = 0;
  while (have < file_bytes) {
    const ssize_t n = ::read(d.fd, bytes + have, file_bytes - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return trouble(path, "cannot read");
    if (n == 0) return corrupt(path, "it ends early");
    have += static_cast<size_t>(n);
  }
  return true;
}

result<identity> parse_file(const std::string &path, const uint8_t (&bytes)[file_bytes]) {
  if (std::memcmp(bytes, file_prefix, sizeof file_prefix) != 0) return corrupt(path, "not a libp2p Ed25519 private key");
  key32 seed;
  std::memcpy(seed.data(), bytes + 4, 32);
  identity id = identity_from_seed(seed);
  sodium_memzero(seed.data(), seed.size());
  if (std::memcmp(id.ed25519_public.data(), bytes + 36, 32) != 0)
    return corrupt(path, "its public key does not belong to its seed");
  return id;
}

status write_new(const std::string &path, const uint8_t (&bytes)[file_bytes]) {
  const std::string draft = path + ".new-" + std::to_string(::getpid());
  {
    descriptor d{::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (d.fd < 0) return trouble(draft, "cannot create");
    const bool written = ::write(d.fd, bytes, file_bytes) == static_cast<ssize_t>(file_bytes) && ::fsync(d.fd) == 0;
    if (!written) {
      const status why = trouble(draft, "cannot write");
      ::unlink(draft.c_str());
      return why;
    }
  }
  // NOREPLACE: another process may have created the file meanwhile, and an identity is never overwritten.
  if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
    const bool no_flag = errno == EINVAL || errno == ENOSYS;
    if (!no_flag || ::link(draft.c_str(), path.c_str()) != 0) {
      const bool exists = errno == EEXIST;
      const status why = trouble(path, "cannot rename into place");
      ::unlink(draft.c_str());
      return exists ? status() : why;
    }
    ::unlink(draft.c_str());
  }
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  descriptor d{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (d.fd < 0 || ::fsync(d.fd) != 0) return trouble(directory, "cannot sync the directory");
  return {};
}

// Base58 of at most 64 digits into exactly `out`; false when it does not fit or has a foreign character.
bool from_base58(std::string_view text, std::span<uint8_t> out) {
  static constexpr std::string_view digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  if (text.empty() || text.size() > 64) return false;
  std::memset(out.data(), 0, out.size());
  for (const char c : text) {
    const size_t value = digits.find(c);
    if (value == std::string_view::npos) return false;
    uint32_t carry = static_cast<uint32_t>(value);
    for (size_t i = out.size(); i-- > 0;) {
      carry += 58u * out[i];
      out[i] = static_cast<uint8_t>(carry & 0xff);
      carry >>= 8;
    }
    if (carry != 0) return false;
  }
  // One text per id: as many leading '1' as leading zero bytes.
  return to_base58(out) == text;
}

}  // namespace

identity identity_from_seed(const key32 &seed) {
  identity id;
  uint8_t secret[crypto_sign_SECRETKEYBYTES];
  crypto_sign_seed_keypair(id.ed25519_public.data(), secret, seed.data());
  if (crypto_sign_ed25519_sk_to_curve25519(id.curve_secret.data(), secret) != 0 ||
      crypto_sign_ed25519_pk_to_curve25519(id.curve_public.data(), id.ed25519_public.data()) != 0)
    id.curve_public = {};
  sodium_memzero(secret, sizeof secret);
  uint8_t raw[id_bytes];
  std::memcpy(raw, id_prefix, sizeof id_prefix);
  std::memcpy(raw + sizeof id_prefix, id.ed25519_public.data(), 32);
  id.peer_id = to_base58(raw);
  return id;
}

result<identity> load_or_create_identity(const std::string &path) {
  uint8_t bytes[file_bytes];
  auto found = read_file(path, bytes);
  if (!found) return found.why();
  if (!*found) {
    std::memcpy(bytes, file_prefix, sizeof file_prefix);
    uint8_t secret[crypto_sign_SECRETKEYBYTES];
    randombytes_buf(bytes + 4, 32);
    crypto_sign_seed_keypair(bytes + 36, secret, bytes + 4);
    sodium_memzero(secret, sizeof secret);
    const status written = write_new(path, bytes);
    sodium_memzero(bytes, sizeof bytes);
    if (!written) return written;
    // Read back: what counts is what the next start will find.
    found = read_file(path, bytes);
    if (!found) return found.why();
    if (!*found) return fail(errc::unavailable, "identity file: it vanished right after it was written", path);
  }
  auto id = parse_file(path, bytes);
  sodium_memzero(bytes, sizeof bytes);
  return id;
}

result<identity_lock> identity_lock::take(const std::string &path) {
  descriptor d{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (d.fd < 0) return trouble(path, "cannot open");
  if (::flock(d.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail(errc::conflict, "identity file: another process on this machine runs with it; stop that one, or give this one a file of its own "
                "(--identity-path)", path);
  return identity_lock(std::exchange(d.fd, -1));
}

identity_lock::~identity_lock() {
  if (fd_ >= 0) ::close(fd_);
}

result<key32> curve_key_of(std::string_view peer_id) {
  uint8_t raw[id_bytes];
  key32 key;
  if (!from_base58(peer_id, raw) || std::memcmp(raw, id_prefix, sizeof id_prefix) != 0 ||
      crypto_sign_ed25519_pk_to_curve25519(key.data(), raw + sizeof id_prefix) != 0)
    return fail(errc::invalid, "not a peer id: expected the 12D3KooW... text of an Ed25519 key");
  return key;
}

curve_pair router_keys(std::string_view secret) {
  curve_pair pair;
  pair.secret_key = hkdf_sha256(secret, "hivenet-zmq-curve-v1", "router-server-key");
  crypto_scalarmult_base(pair.public_key.data(), pair.secret_key.data());
  return pair;
}

result<std::vector<std::string>> parse_secrets(std::string_view text, std::string_view where) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<std::string> secrets;
  size_t line = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view secret = trim(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++line;
    if (secret.empty()) continue;
    if (secret.size() < 32)
      return fail(errc::invalid, "the shared secret in line " + std::to_string(line) + " has " + std::to_string(secret.size()) +
                  " bytes; it needs at least 32 (make one with: openssl rand -hex 32)", std::string(where));
    if (secrets.size() == 8)
      return fail(errc::invalid, "more than 8 shared secrets; keep the one in use and the next one, one a line", std::string(where));
    secrets.emplace_back(secret);
  }
  if (secrets.empty())
    return fail(errc::invalid, "no shared secret; it needs at least 32 bytes (make one with: openssl rand -hex 32)", std::string(where));
  return secrets;
}

}  // namespace hive::link
