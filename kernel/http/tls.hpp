// TLS for connections that a client opens: whom it trusts, and one session over one socket. Verification cannot be switched
// off: chain and name are checked, TLS 1.2 is the least. Internal to http/, tls_trust excepted.
#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "http/connector.hpp"

namespace hive::http {

inline constexpr size_t tls_record_bytes = 16 * 1024;  // the most that one takes (RFC 8446, section 5.1)

// Immutable, any thread; one a program is enough.
class tls_trust {
 public:
  // The certificate authorities of a PEM file; "" = those of the system.
  static result<std::shared_ptr<const tls_trust>> make(const std::string &ca_file);
  ~tls_trust();

 private:
  friend class tls_session;
  struct state;
  explicit tls_trust(std::unique_ptr<state>);
  const std::unique_ptr<state> state_;
};

// What hears of a session's work. It counts references as long as an operation runs, its own destruction ends none.
class tls_events {
 public:
  virtual void on_secured(const boost::system::error_code &, std::string why) = 0;
  virtual void on_tls_read(const boost::system::error_code &, size_t) = 0;
  virtual void on_tls_written(const boost::system::error_code &, size_t) = 0;
  virtual void add_reference() = 0;
  virtual void drop_reference() = 0;

 protected:
  ~tls_events() = default;
};

// Loop thread only. At most one read and one write at a time; the socket outlives it and is closed by its owner, which ends all of it.
class tls_session {
 public:
  tls_session(const tls_trust &, loop_socket &, tls_events &);
  ~tls_session();
  // `host` is sent (SNI, if it is a name) and must be what the certificate says.
  void secure(const std::string &host);
  void read(void *into, size_t size);   // into must live until on_tls_read
  void write(std::string_view bytes);   // a first part of it, copied; on_tls_written says how much
  static bool is_end(const boost::system::error_code &);   // the peer closed, with or without saying so

 private:
  struct state;
  const std::unique_ptr<state> state_;
};

}  // namespace hive::http
