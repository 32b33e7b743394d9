#include "http/tls_server.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "http/tls.hpp"

namespace hive::http {

namespace {

constexpr size_t most_at_once = 256 * 1024;  // of one write: the loop has other connections, too
constexpr unsigned reads_of_a_call = 64;     // likewise, of a handshake or a read; a record takes two
constexpr unsigned most_fruitless = 32;      // calls that used them up without a byte for HTTP: such a client wants work, nothing else

// Key exchanges with forward secrecy and AEAD ciphers only; of TLS 1.3 there are no others.
constexpr const char *ciphers_of_1_2 = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr unsigned char spoken[] = "\x08http/1.1";

// The last word of OpenSSL's queue; it is empty afterwards.
std::string reason() {
  const unsigned long code = ERR_peek_last_error();
  const char *text = code == 0 ? nullptr : ERR_reason_error_string(code);
  std::string out = text == nullptr ? "no reason given" : text;
  ERR_clear_error();
  return out;
}

// Called around whatever OpenSSL does with the socket. Records that bring nothing (new keys, a renegotiation that is refused) would
// keep it at reading for as long as there are more of them: once the call's reads are used up, the socket seems to have no bytes.
long count_read(BIO *socket, int what, const char *, size_t, int, long, int result, size_t *) {
  if (what != BIO_CB_READ) return result;
  unsigned &left = *reinterpret_cast<unsigned *>(BIO_get_callback_arg(socket));
  if (left > 0) {
    --left;
    return result;
  }
  BIO_clear_retry_flags(socket);
  BIO_set_retry_read(socket);
  return -1;
}

int no_passphrase(char *, int, int, void *) { return -1; }

// A client that offers protocols and not this one would speak another.
int choose_protocol(SSL *, const unsigned char **out, unsigned char *size, const unsigned char *in, unsigned in_size, void *) {
  unsigned char *chosen = nullptr;
  if (SSL_select_next_proto(&chosen, size, spoken, sizeof spoken - 1, in, in_size) != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

int64_t unix_of(const ASN1_TIME *t) {
  std::tm at{};
  return ASN1_TIME_to_tm(t, &at) == 1 ? static_cast<int64_t>(timegm(&at)) : 0;
}

std::string instant(int64_t unix_s) { return rfc3339_ms(static_cast<uint64_t>(std::max<int64_t>(unix_s, 0)) * 1000); }

// OpenSSL opens anything: a pipe would stop the start for ever.
status is_file(const std::string &path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return fail(errc::invalid, std::string("cannot be opened: ") + std::generic_category().message(errno), path);
  if (!S_ISREG(s.st_mode)) return fail(errc::invalid, "is not a regular file; a PEM file is expected", path);
  return {};
}

}  // namespace

result<std::shared_ptr<const tls_identity>> tls_identity::load(const tls_files &files) {
  ERR_clear_error();
  SSL_CTX *const context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return fail(errc::internal, "OpenSSL cannot be used: " + reason());
  const std::shared_ptr<tls_identity> made(new tls_identity(context));
  if (const status s = made->use(files); !s) return s;
  made->judge(files);
  return std::shared_ptr<const tls_identity>(made);
}

tls_identity::~tls_identity() { SSL_CTX_free(context_); }

bool tls_identity::expired() const { return expires_unix_s_ <= static_cast<int64_t>(std::time(nullptr)); }

status tls_identity::use(const tls_files &files) {
  for (const std::string *path : {&files.certificate, &files.key, &files.client_ca})
    if (path != &files.client_ca || !path->empty())
      if (const status s = is_file(*path); !s) return s;
  SSL_CTX_set_min_proto_version(context_, files.only_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);
  // A bare FIN counts as an end: what HTTP has not framed to its end is incomplete whatever came before it.
  SSL_CTX_set_options(context_, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                    SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_cipher_list(context_, ciphers_of_1_2);
  SSL_CTX_set_mode(context_, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_alpn_select_cb(context_, choose_protocol, nullptr);
  // Sessions are resumed by tickets, which cost no memory here; their keys go with this identity.
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context_, 1);
  SSL_CTX_set_default_passwd_cb(context_, no_passphrase);

  if (SSL_CTX_use_certificate_chain_file(context_, files.certificate.c_str()) != 1)
    return fail(errc::invalid, "no certificate can be read: " + reason() + "; expected a PEM file, the server's own certificate first", files.certificate);
  if (SSL_CTX_use_PrivateKey_file(context_, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH) {
      ERR_clear_error();
      return fail(errc::invalid, "is not the key of the certificate in " + files.certificate, files.key);
    }
    return fail(errc::invalid, "no private key can be read: " + reason() + "; expected a PEM file without a passphrase", files.key);
  }
  if (SSL_CTX_check_private_key(context_) != 1) {
    ERR_clear_error();
    return fail(errc::invalid, "is not the key of the certificate in " + files.certificate, files.key);
  }
  if (files.client_ca.empty()) return {};
  STACK_OF(X509_NAME) *const names = SSL_load_client_CA_file(files.client_ca.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(context_, files.client_ca.c_str()) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return fail(errc::invalid, "no certificate authorities can be read: " + reason() + "; expected a PEM file", files.client_ca);
  }
  SSL_CTX_set_client_CA_list(context_, names);
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // A resumed session would not be verified again.
  SSL_CTX_set_options(context_, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context_, 0);
  return {};
}

void tls_identity::judge(const tls_files &files) {
  const int64_t now = static_cast<int64_t>(std::time(nullptr));
  const X509 *const own = SSL_CTX_get0_certificate(context_);
  expires_unix_s_ = unix_of(X509_get0_notAfter(own));
  STACK_OF(X509) *chain = nullptr;
  SSL_CTX_get0_chain_certs(context_, &chain);
  for (int i = 0; i < sk_X509_num(chain); ++i) expires_unix_s_ = std::min(expires_unix_s_, unix_of(X509_get0_notAfter(sk_X509_value(chain, i))));
  if (expires_unix_s_ <= now)
    warnings_.push_back(files.certificate + ": the certificate, or one that it hangs on, expired at " + instant(expires_unix_s_) + "; clients will refuse it");
  if (const int64_t begins = unix_of(X509_get0_notBefore(own)); begins > now)
    warnings_.push_back(files.certificate + ": the certificate is not valid before " + instant(begins) + "; clients will refuse it");
  struct stat s {};
  if (::stat(files.key.c_str(), &s) == 0 && (s.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    warnings_.push_back(files.key + ": the private key can be used by its group or by others; chmod 600 it");
}

tls_channel::tls_channel(std::shared_ptr<const tls_identity> identity, int socket)
    : identity_(std::move(identity)), session_(SSL_new(identity_->context_)) {
  if (session_ == nullptr || SSL_set_fd(session_, socket) != 1) {
    broken_ = true;
    return;
  }
  BIO_set_callback_arg(SSL_get_rbio(session_), reinterpret_cast<char *>(&reads_left_));
  BIO_set_callback_ex(SSL_get_rbio(session_), count_read);
  SSL_set_accept_state(session_);
}

tls_channel::~tls_channel() { SSL_free(session_); }

tls_progress tls_channel::judged(int returned) {
  const int system = errno;
  switch (SSL_get_error(session_, returned)) {
    case SSL_ERROR_NONE: return {tls_step::done};
    case SSL_ERROR_WANT_READ: return {tls_step::wants_read};
    case SSL_ERROR_WANT_WRITE: return {tls_step::wants_write};
    case SSL_ERROR_ZERO_RETURN: return {tls_step::ended};
    case SSL_ERROR_SYSCALL:
      broken_as_ = system == ECONNRESET || system == EPIPE ? tls_step::reset : system == 0 ? tls_step::ended : tls_step::failed;
      break;
    default:
      broken_as_ = tls_step::failed;
      plain_http_ = !secured_ && ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST;
      break;
  }
  broken_ = true;
  ERR_clear_error();
  return {broken_as_};
}

tls_progress tls_channel::handshake() {
  if (broken_) return {broken_as_};
  ERR_clear_error();
  errno = 0;
  reads_left_ = reads_of_a_call;
  const int n = SSL_do_handshake(session_);
  if (n != 1) return judged(n);
  secured_ = true;
  return {tls_step::done};
}

// Record after record while they come full: a body is read in steps as large as without TLS.
tls_progress tls_channel::read(void *into, size_t size) {
  if (broken_) return {broken_as_};
  reads_left_ = reads_of_a_call;
  size_t total = 0;
  while (total < size) {
    ERR_clear_error();
    errno = 0;
    size_t got = 0;
    const int n = SSL_read_ex(session_, static_cast<char *>(into) + total, size - total, &got);
    if (n != 1) {
      const tls_progress p = judged(n);
      if (total > 0) return {tls_step::done, total};  // an end shows again
      if (p.step == tls_step::wants_read && reads_left_ == 0 && ++fruitless_ > most_fruitless) {
        broken_ = true;
        broken_as_ = tls_step::failed;
        return {broken_as_};
      }
      end_told_ = end_told_ || p.step == tls_step::ended;
      return p;
    }
    fruitless_ = 0;
    total += got;
    if (got < tls_record_bytes && SSL_pending(session_) == 0) break;
  }
  return {tls_step::done, total};
}

// An end that came along with bytes is in no socket any more, either.
bool tls_channel::has_bytes() const {
  return broken_ || SSL_has_pending(session_) == 1 || (!end_told_ && (SSL_get_shutdown(session_) & SSL_RECEIVED_SHUTDOWN) != 0);
}

tls_progress tls_channel::write(std::string_view bytes) {
  if (broken_) return {broken_as_};
  reads_left_ = reads_of_a_call;
  size_t total = 0;
  while (total < bytes.size() && total < most_at_once) {
    ERR_clear_error();
    errno = 0;
    size_t taken = 0;
    const int n = SSL_write_ex(session_, bytes.data() + total, bytes.size() - total, &taken);
    if (n != 1) {
      tls_progress p = judged(n);
      p.bytes = total;
      return p;
    }
    total += taken;
  }
  return {tls_step::done, total};
}

tls_progress tls_channel::say_goodbye() {
  if (!secured_ || broken_) return {tls_step::done};
  // OpenSSL calls it sent before the socket has taken any of it.
  if (!goodbye_pending_ && (SSL_get_shutdown(session_) & SSL_SENT_SHUTDOWN) != 0) return {tls_step::done};
  ERR_clear_error();
  errno = 0;
  reads_left_ = 0;  // the peer's own goodbye is what nobody waits for
  const int n = SSL_shutdown(session_);
  goodbye_pending_ = n < 0 && judged(n).step == tls_step::wants_write;
  return {goodbye_pending_ ? tls_step::wants_write : tls_step::done};
}

}  // namespace hive::http
