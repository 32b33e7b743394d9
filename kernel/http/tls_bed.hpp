// The far end of a TLS connection over a scripted origin's socket.
#pragma once

#include <openssl/ssl.h>

#include <string>

#include "http/client_bed.hpp"
#include "http/test_certificate.hpp"

namespace hive::http::test {

// Blocking; `good` tells whether the handshake came to its end.
class tls_peer {
 public:
  tls_peer(raw_socket &socket, const own_certificate &certificate, int most_version = TLS1_3_VERSION)
      : context_(SSL_CTX_new(TLS_server_method())), ssl_(nullptr) {
    certificate.use(context_);
    SSL_CTX_set_max_proto_version(context_, most_version);
    if (most_version < TLS1_2_VERSION) SSL_CTX_set_security_level(context_, 0);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, socket.fd());
    good = SSL_accept(ssl_) == 1;
    if (const char *asked = SSL_get_servername(ssl_, TLSEXT_NAMETYPE_host_name)) name = asked;
  }
  ~tls_peer() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  tls_peer(const tls_peer &) = delete;

  bool send(std::string_view bytes) { return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) > 0; }
  std::string until(std::string_view mark) {
    std::string seen;
    char piece[65536];
    while (seen.find(mark) == std::string::npos) {
      const int n = SSL_read(ssl_, piece, sizeof piece);
      if (n <= 0) break;
      seen.append(piece, static_cast<size_t>(n));
    }
    return seen;
  }
  void say_goodbye() { SSL_shutdown(ssl_); }

  bool good = false;
  std::string name;   // SNI

 private:
  SSL_CTX *context_;
  SSL *ssl_;
};

}  // namespace hive::http::test
