// A certificate of a test's own making, and the far end of a TLS connection over a scripted origin's socket.
#pragma once

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

#include "http/client_bed.hpp"

namespace hive::http::test {

// Self-signed, so that it is its own authority.
class own_certificate {
 public:
  // `names` as OpenSSL's subjectAltName has them: "DNS:localhost,IP:127.0.0.1".
  explicit own_certificate(const std::string &names) : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    X509 *c = certificate_.get();
    X509_set_version(c, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(c), 1);
    X509_gmtime_adj(X509_getm_notBefore(c), -3600);
    X509_gmtime_adj(X509_getm_notAfter(c), 3600);
    X509_set_pubkey(c, key_.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char *>("a test"), -1, -1, 0);
    X509_set_issuer_name(c, X509_get_subject_name(c));
    add(NID_basic_constraints, "critical,CA:TRUE");
    add(NID_subject_alt_name, names.c_str());
    X509_sign(c, key_.get(), EVP_sha256());
  }
  void write(const std::string &file) const {
    std::FILE *out = std::fopen(file.c_str(), "w");
    PEM_write_X509(out, certificate_.get());
    std::fclose(out);
  }
  void use(SSL_CTX *context) const {
    SSL_CTX_use_certificate(context, certificate_.get());
    SSL_CTX_use_PrivateKey(context, key_.get());
  }

 private:
  template <auto f>
  struct freed {
    template <class T>
    void operator()(T *p) const {
      f(p);
    }
  };
  void add(int kind, const char *value) {
    const std::unique_ptr<X509_EXTENSION, freed<X509_EXTENSION_free>> e(X509V3_EXT_conf_nid(nullptr, nullptr, kind, value));
    X509_add_ext(certificate_.get(), e.get(), -1);
  }
  std::unique_ptr<EVP_PKEY, freed<EVP_PKEY_free>> key_;
  std::unique_ptr<X509, freed<X509_free>> certificate_;
};

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
