// TLS of a listener: what it shows and asks for, and one connection's channel over its own socket. OpenSSL reads from and writes to
// that socket itself, so that an idle connection holds no buffers for it. Internal to http/, tls_identity excepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

struct ssl_st;
struct ssl_ctx_st;

namespace hive::http {

struct tls_files {
  std::string certificate;      // PEM: the listener's own first, then those between it and an authority
  std::string key;              // PEM, without a passphrase
  std::string client_ca;        // PEM: who must have signed a client's certificate; "" = clients need none
  bool only_1_3 = false;        // else TLS 1.2, too
};

// Certificate, key and rules, as they were when they were read. Immutable, any thread.
class tls_identity {
 public:
  // Refused: what cannot be read, a key that is not the certificate's, a key with a passphrase, a certificate that OpenSSL's security
  // level does not allow. What only looks wrong (expired, not valid yet, a key that others may read) is in warnings().
  static result<std::shared_ptr<const tls_identity>> load(const tls_files &);
  ~tls_identity();
  tls_identity(const tls_identity &) = delete;

  int64_t expires_unix_s() const { return expires_unix_s_; }  // the first certificate of the chain to expire
  bool expired() const;
  const std::vector<std::string> &warnings() const { return warnings_; }

 private:
  friend class tls_channel;
  explicit tls_identity(ssl_ctx_st *context) : context_(context) {}
  status use(const tls_files &);
  void judge(const tls_files &);

  ssl_ctx_st *const context_;
  int64_t expires_unix_s_ = 0;
  std::vector<std::string> warnings_;
};

enum class tls_step { done, wants_read, wants_write, ended, reset, failed };

struct tls_progress {
  tls_step step;
  size_t bytes = 0;
};

// The server's end. Never blocks; `wants_` says what the socket must be ready for before the same call is made again. A call to write
// is repeated with the same bytes, and more if there are. One thread at a time.
class tls_channel {
 public:
  tls_channel(std::shared_ptr<const tls_identity>, int socket);  // which is the caller's, and non-blocking
  ~tls_channel();
  tls_channel(const tls_channel &) = delete;

  tls_progress handshake();
  bool met_plain_http() const { return plain_http_; }  // why the handshake failed
  // `done` brings at least one byte; wants_read may come while the socket has some, for others to have their turn. The peer's end is
  // `ended`, whether it said so or its connection just ended: HTTP's own framing tells what is whole. `failed` is also a peer that
  // makes work without sending any byte.
  tls_progress read(void *into, size_t size);
  bool has_bytes() const;                          // read() may bring some without the socket being readable
  // As much as the socket takes, or a bounded part of it; `bytes` are what it has taken, also beside wants_.
  tls_progress write(std::string_view bytes);
  tls_progress say_goodbye();                      // close_notify; `done` also where it makes no sense any more

 private:
  tls_progress judged(int returned);

  const std::shared_ptr<const tls_identity> identity_;
  ssl_st *const session_;
  bool secured_ = false, broken_ = false, plain_http_ = false;
  bool goodbye_pending_ = false;  // begun, and the socket has not taken all of it
  bool end_told_ = false;         // the peer's, by read()
  unsigned reads_left_ = 0;       // of the socket, in the call under way
  unsigned fruitless_ = 0;        // calls of read() that used them up, since the last byte
  tls_step broken_as_ = tls_step::failed;
};

}  // namespace hive::http
