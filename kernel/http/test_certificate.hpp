// Certificates of a test's own making.
#pragma once

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <string>

namespace hive::http::test {

// Self-signed and its own authority, unless `by` signs it.
class own_certificate {
 public:
  struct life {
    long from_s = -3600, to_s = 3600;  // from now
  };
  // `names` as OpenSSL's subjectAltName has them: "DNS:localhost,IP:127.0.0.1".
  explicit own_certificate(const std::string &names, const own_certificate *by = nullptr) : own_certificate(names, by, life{}) {}
  own_certificate(const std::string &names, const own_certificate *by, life valid) : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    static long serial = 0;
    X509 *c = certificate_.get();
    X509_set_version(c, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(c), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(c), valid.from_s);
    X509_gmtime_adj(X509_getm_notAfter(c), valid.to_s);
    X509_set_pubkey(c, key_.get());
    const std::string name = "a test's " + std::to_string(serial);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char *>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(c, X509_get_subject_name(by == nullptr ? c : by->certificate_.get()));
    add(NID_basic_constraints, by == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
    add(NID_subject_alt_name, names.c_str());
    X509_sign(c, by == nullptr ? key_.get() : by->key_.get(), EVP_sha256());
  }
  void write(const std::string &file) const {
    std::FILE *out = std::fopen(file.c_str(), "w");
    PEM_write_X509(out, certificate_.get());
    std::fclose(out);
  }
  void write_key(const std::string &file, const char *passphrase = nullptr) const {
    std::FILE *out = std::fopen(file.c_str(), "w");
    ::chmod(file.c_str(), 0600);
    PEM_write_PrivateKey(out, key_.get(), passphrase == nullptr ? nullptr : EVP_aes_128_cbc(), nullptr, 0, nullptr, const_cast<char *>(passphrase));
    std::fclose(out);
  }
  void use(SSL_CTX *context) const {
    SSL_CTX_use_certificate(context, certificate_.get());
    SSL_CTX_use_PrivateKey(context, key_.get());
  }
  void trust(SSL_CTX *context) const {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate_.get());
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  long serial() const { return ASN1_INTEGER_get(X509_get_serialNumber(certificate_.get())); }

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

}  // namespace hive::http::test
