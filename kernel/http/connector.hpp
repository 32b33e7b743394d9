// Opens one TCP connection to a name or address: resolves, then tries the addresses with a short stagger (Happy Eyeballs,
// RFC 8305: 250 ms, families in turn). Internal to http/. Loop thread only.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.hpp"

namespace hive::http {

using loop_executor = boost::asio::io_context::executor_type;
using loop_socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, loop_executor>;

class connect_events {
 public:
  // Exactly one of them, never from inside start().
  virtual void on_connected(loop_socket) = 0;
  virtual void on_connect_failed(bool timed_out, std::string why) = 0;

 protected:
  ~connect_events() = default;
};

class connector {
 public:
  using endpoint = boost::asio::ip::tcp::endpoint;
  static constexpr uint64_t stagger_ns = 250 * ns_per_ms;

  // Keeps itself alive until it has reported or been cancelled.
  static boost::intrusive_ptr<connector> start(loop &, const std::string &host, uint16_t port, uint64_t timeout_ns,
                                               connect_events &);
  // To addresses that are known, as if `where` had resolved to them. Requires: at least one.
  static boost::intrusive_ptr<connector> start(loop &, std::string where, std::vector<endpoint> found, uint64_t timeout_ns,
                                               connect_events &);
  void cancel();  // no event comes afterwards

 private:
  using resolver = boost::asio::ip::basic_resolver<boost::asio::ip::tcp, loop_executor>;
  using self_ptr = boost::intrusive_ptr<connector>;
  template <void (connector::*member)()>
  struct timer final : loop_timer {
    explicit timer(connector &c) : owner(c) {}
    void on_timer() override { (self_ptr(&owner).get()->*member)(); }
    connector &owner;
  };

  connector(loop &, std::string where, connect_events &);
  friend void intrusive_ptr_add_ref(connector *c) { ++c->references_; }
  friend void intrusive_ptr_release(connector *c) {
    if (--c->references_ == 0) delete c;
  }
  void order(std::vector<endpoint> found);
  void try_next();
  void on_attempt(size_t index, const boost::system::error_code &);
  void on_timeout();
  void finish_failed(bool timed_out, const std::string &why);

  loop &loop_;
  std::string where_;
  connect_events *events_;
  long references_ = 0;
  resolver resolver_;
  std::vector<endpoint> endpoints_;
  std::vector<std::unique_ptr<loop_socket>> attempts_;
  size_t failed_ = 0;
  std::string last_error_;
  timer<&connector::try_next> stagger_{*this};
  timer<&connector::on_timeout> timeout_{*this};
};

}  // namespace hive::http
