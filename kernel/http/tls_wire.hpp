// The client's end of TLS over a test's socket.
#pragma once

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <cerrno>
#include <mutex>
#include <string>

#include "http/test_certificate.hpp"
#include "http/test_support.hpp"

namespace hive::http::test {

struct tls_wishes {
  const own_certificate *trusted = nullptr;   // null: anybody
  const own_certificate *shown = nullptr;     // to a server that asks for one
  int least = TLS1_2_VERSION, most = TLS1_3_VERSION;
  std::string protocols = {};                 // ALPN, each with its length in front
  std::string ciphers = {};                   // of TLS 1.2
};

class tls_wire final : public wire_layer {
 public:
  tls_wire(int fd, const tls_wishes &w) : context_(SSL_CTX_new(TLS_client_method())) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    if (w.least < TLS1_2_VERSION) SSL_CTX_set_security_level(context_, 0);
    SSL_CTX_set_min_proto_version(context_, w.least);
    SSL_CTX_set_max_proto_version(context_, w.most);
    SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (!w.ciphers.empty()) SSL_CTX_set_cipher_list(context_, w.ciphers.c_str());
    if (w.trusted != nullptr) w.trusted->trust(context_);
    if (w.shown != nullptr) w.shown->use(context_);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd);
    SSL_set_tlsext_host_name(ssl_, "localhost");
    if (w.trusted != nullptr) SSL_set1_host(ssl_, "localhost");
    if (!w.protocols.empty()) SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char *>(w.protocols.data()), static_cast<unsigned>(w.protocols.size()));
    int n = 0;
    while ((n = SSL_connect(ssl_)) != 1) {
      const int why = SSL_get_error(ssl_, n);
      if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) break;
      pollfd p{fd, static_cast<short>(why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
      if (::poll(&p, 1, patience_ms) != 1) break;
    }
    good = n == 1;
    ERR_clear_error();
  }
  ~tls_wire() override {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  tls_wire(const tls_wire &) = delete;

  ssize_t send(const void *bytes, size_t size) override {
    const std::lock_guard guard(mutex_);
    return told(SSL_write(ssl_, bytes, static_cast<int>(size)));
  }
  ssize_t receive(void *into, size_t size) override {
    const std::lock_guard guard(mutex_);
    return told(SSL_read(ssl_, into, static_cast<int>(size)));
  }
  void half_close() override { SSL_shutdown(ssl_); }
  void renew_keys() { SSL_key_update(ssl_, SSL_KEY_UPDATE_REQUESTED); }
  // As many records that bring the server no byte.
  void renew_keys_idly(int times) {
    const std::lock_guard guard(mutex_);
    for (; times > 0; --times) {
      SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);
      SSL_do_handshake(ssl_);
    }
    ERR_clear_error();
  }
  std::string version() const { return SSL_get_version(ssl_); }
  std::string protocol() const {
    const unsigned char *name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    return {reinterpret_cast<const char *>(name), size};
  }
  long serial() const {
    X509 *const shown = SSL_get1_peer_certificate(ssl_);
    const long n = shown == nullptr ? 0 : ASN1_INTEGER_get(X509_get_serialNumber(shown));
    X509_free(shown);
    return n;
  }

  bool good = false;          // the handshake came to its end, on this side
  bool said_goodbye = false;  // the server did

 private:
  ssize_t told(int n) {
    if (n > 0) return n;
    const int system = errno;
    const int why = SSL_get_error(ssl_, n);
    const bool cut = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    ERR_clear_error();
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : system == EAGAIN ? EIO : system;
    if (why == SSL_ERROR_ZERO_RETURN) said_goodbye = true;
    return why == SSL_ERROR_ZERO_RETURN || cut ? 0 : -1;
  }

  SSL_CTX *context_;
  SSL *ssl_ = nullptr;
  std::mutex mutex_;
};

}  // namespace hive::http::test
