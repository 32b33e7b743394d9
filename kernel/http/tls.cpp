#include "http/tls.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl.hpp>
#include <utility>

namespace hive::http {

namespace ssl = boost::asio::ssl;

void intrusive_ptr_add_ref(tls_events *e) { e->add_reference(); }
void intrusive_ptr_release(tls_events *e) { e->drop_reference(); }

using held_events = boost::intrusive_ptr<tls_events>;

struct tls_trust::state {
  // Sessions only share it for reading; OpenSSL counts its references under its own lock.
  ssl::context context{ssl::context::tls_client};
};

tls_trust::tls_trust(std::unique_ptr<state> s) : state_(std::move(s)) {}
tls_trust::~tls_trust() = default;

result<std::shared_ptr<const tls_trust>> tls_trust::make(const std::string &ca_file) {
  auto made = std::make_unique<state>();
  boost::system::error_code error;
  if (ca_file.empty()) made->context.set_default_verify_paths(error);
  else made->context.load_verify_file(ca_file, error);
  if (error)
    return fail(errc::invalid, "no certificate authorities can be read: " + error.message() + "; expected a PEM file", ca_file);
  made->context.set_verify_mode(ssl::verify_peer);
  SSL_CTX_set_min_proto_version(made->context.native_handle(), TLS1_2_VERSION);
  return std::shared_ptr<const tls_trust>(new tls_trust(std::move(made)));
}

struct tls_session::state {
  state(const tls_trust &trust, loop_socket &socket, tls_events &e) : stream(socket, trust.state_->context), events(e) {}
  ssl::stream<loop_socket &> stream;
  tls_events &events;
  std::string out;   // what is being written: the caller's bytes may go while OpenSSL still wants them
};

tls_session::tls_session(const tls_trust &trust, loop_socket &socket, tls_events &events)
    : state_(std::make_unique<state>(trust, socket, events)) {}
tls_session::~tls_session() = default;

void tls_session::secure(const std::string &host) {
  SSL *const session = state_->stream.native_handle();
  boost::system::error_code is_name;
  (void)boost::asio::ip::make_address(host, is_name);
  const bool asked = is_name ? SSL_set_tlsext_host_name(session, host.c_str()) == 1 && SSL_set1_host(session, host.c_str()) == 1
                             : X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str()) == 1;
  if (!asked) SSL_set_verify(session, SSL_VERIFY_PEER, [](int, X509_STORE_CTX *) { return 0; });
  state_->stream.async_handshake(ssl::stream_base::client, [s = state_.get(), hold = held_events(&state_->events)](const boost::system::error_code &error) {
    std::string why;
    if (error) {
      why = error.message();
      const long verdict = SSL_get_verify_result(s->stream.native_handle());
      if (verdict != X509_V_OK) why = std::string("its certificate is refused: ") + X509_verify_cert_error_string(verdict);
    }
    hold->on_secured(error, std::move(why));
  });
}

void tls_session::read(void *into, size_t size) {
  state_->stream.async_read_some(boost::asio::buffer(into, size),
                                 [hold = held_events(&state_->events)](const boost::system::error_code &error, size_t n) { hold->on_tls_read(error, n); });
}

void tls_session::write(std::string_view bytes) {
  state_->out.assign(bytes.substr(0, tls_record_bytes));
  state_->stream.async_write_some(boost::asio::buffer(state_->out),
                                  [hold = held_events(&state_->events)](const boost::system::error_code &error, size_t n) { hold->on_tls_written(error, n); });
}

bool tls_session::is_end(const boost::system::error_code &error) {
  return error == boost::asio::error::eof || error == ssl::error::stream_truncated;
}

}  // namespace hive::http
