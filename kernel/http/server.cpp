#include "http/server.hpp"

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <charconv>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "http/connection.hpp"
#include "http/peer_limit.hpp"

namespace hive::http {

namespace {
using boost::asio::ip::tcp;
// What the kernel takes ahead of what the network does; the rest waits here, where it is counted and stops its own engine.
constexpr int unsent_low_water = 128 * 1024;
constexpr uint64_t accept_pause_ns = 100 * ns_per_ms;  // when descriptors or memory run out

// "HOST:PORT", "[IPv6]:PORT", ":PORT".
result<tcp::endpoint> parse_listen(const std::string &address, bool &any) {
  const auto wrong = [&](const char *why) {
    return fail(errc::invalid, "\"" + address + "\": " + why + "; expected HOST:PORT, [IPv6]:PORT or :PORT");
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return wrong("no port");
  unsigned port = 0;
  const char *first = address.data() + colon + 1;
  const char *last = address.data() + address.size();
  const auto [end, error] = std::from_chars(first, last, port);
  if (first == last || error != std::errc() || end != last || port > 65535) return wrong("the port is not a number up to 65535");
  std::string host = address.substr(0, colon);
  any = host.empty();
  if (any) return tcp::endpoint(tcp::v6(), static_cast<uint16_t>(port));
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return wrong("an IPv6 address needs brackets");
  }
  boost::system::error_code bad;
  const auto ip = boost::asio::ip::make_address(host, bad);
  if (bad) return wrong("the host is not an IP address");
  return tcp::endpoint(ip, static_cast<uint16_t>(port));
}

std::string text_of(const boost::asio::ip::address &a) {
  if (a.is_v6() && a.to_v6().is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, a.to_v6()).to_string();
  }
  return a.to_string();
}
}  // namespace

class server::impl {
 public:
  using acceptor = boost::asio::basic_socket_acceptor<tcp, loop_executor>;

  impl(loop &l, service &s, const server_limits &limits)
      : core_(l, s, limits), acceptor_(l.io().get_executor()), next_(l.io().get_executor()) {
    core_.on_closed = [](server_core &core) { of(core).accept_more(); };
    core_.owner = this;
  }

  ~impl() {
    stopped_ = true;
    *alive_ = false;
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    while (!core_.connections.empty()) connection::from(*core_.connections.next).shut(gone::shutdown);
  }

  status listen(const std::string &address, bool reuse_port) {
    bool any = false;
    auto endpoint = parse_listen(address, any);
    if (!endpoint) return endpoint.why();
    boost::system::error_code error;
    const auto wrong = [&](const char *what) {
      boost::system::error_code ignored;
      acceptor_.close(ignored);
      return fail(errc::unavailable, std::string(what) + " " + address + ": " + error.message());
    };
    acceptor_.open(endpoint->protocol(), error);
    if (error && any) {  // a machine without IPv6
      *endpoint = tcp::endpoint(tcp::v4(), endpoint->port());
      acceptor_.open(endpoint->protocol(), error);
      any = false;
    }
    if (error) return wrong("cannot open a socket for");
    acceptor_.set_option(acceptor::reuse_address(true), error);
    if (any) acceptor_.set_option(boost::asio::ip::v6_only(false), error);
    if (reuse_port) {
      const int on = 1;
      ::setsockopt(acceptor_.native_handle(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    }
    // Inherited by what it accepts.
    ::setsockopt(acceptor_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_low_water, sizeof unsent_low_water);
    acceptor_.bind(*endpoint, error);
    if (error && any) {
      any = false;
      acceptor_.close(error);
      *endpoint = tcp::endpoint(tcp::v4(), endpoint->port());
      return listen("0.0.0.0:" + std::to_string(endpoint->port()), reuse_port);
    }
    if (error) return wrong("cannot listen on");
    acceptor_.listen(4096, error);
    if (error) return wrong("cannot listen on");
    acceptor_.non_blocking(true, error);
    const auto bound = acceptor_.local_endpoint(error);
    port_ = bound.port();
    const std::string host = text_of(bound.address());
    address_ = (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port_);
    accept_more();
    return {};
  }

  void stop_accepting() {
    if (stopped_) return;
    stopped_ = true;
    // Closing a listener resets what waits in its queue, so that is taken first.
    while (acceptor_.is_open()) {
      boost::system::error_code error;
      loop_socket socket(core_.home.io().get_executor());
      tcp::endpoint peer;
      acceptor_.accept(socket, peer, error);
      if (error) break;
      take(std::move(socket), peer);
    }
    boost::system::error_code ignored;
    acceptor_.close(ignored);
  }

  void close_idle() {
    for (detail::hook *h = core_.connections.next; h != &core_.connections;) {
      detail::hook *following = h->next;
      connection::from(*h).close_if_idle();
      h = following;
    }
  }

  server_core core_;
  std::string address_;
  uint16_t port_ = 0;

 private:
  static impl &of(server_core &core) { return *static_cast<impl *>(core.owner); }

  void accept_more() {
    if (stopped_ || accepting_ || pause_.armed() || !acceptor_.is_open()) return;
    if (core_.counters.open >= core_.limits.max_connections) {
      if (!std::exchange(full_, true)) ++core_.counters.limit_reached;
      return;
    }
    full_ = false;
    accepting_ = true;
    acceptor_.async_accept(next_, next_peer_, [this, alive = alive_](const boost::system::error_code &error) {
      if (*alive) on_accept(error);
    });
  }

  void on_accept(const boost::system::error_code &error) {
    accepting_ = false;
    loop_socket socket = std::exchange(next_, loop_socket(core_.home.io().get_executor()));
    if (!error) {
      try {
        take(std::move(socket), next_peer_);
      } catch (...) {
        ++core_.counters.accept_failures;
        if (!stopped_) core_.home.arm_in(pause_, accept_pause_ns);  // or nobody would accept again
        throw;  // the loop reports it
      }
    } else if (error != boost::asio::error::connection_aborted && error != boost::asio::error::operation_aborted) {
      ++core_.counters.accept_failures;
      if (!stopped_) core_.home.arm_in(pause_, accept_pause_ns);
    }
    accept_more();
  }

  void take(loop_socket socket, const tcp::endpoint &peer) {
    boost::system::error_code error;
    socket.non_blocking(true, error);
    socket.set_option(tcp::no_delay(true), error);
    ++core_.counters.accepted;
    std::string address = text_of(peer.address());
    const auto entry = core_.limits.peers == nullptr ? peer_limit::entry::uncounted : core_.limits.peers->enter(address);
    if (entry == peer_limit::entry::refused) {
      ++core_.counters.refused_address;
      return;
    }
    const bool counted = entry == peer_limit::entry::counted;
    connection *made = nullptr;
    try {
      made = new connection(core_, std::move(socket), address, counted);
    } catch (...) {
      if (counted) core_.limits.peers->leave(address);  // of a connection that is, it does so itself
      throw;
    }
    made->start();  // it owns itself while open
  }

  acceptor acceptor_;
  loop_socket next_;
  tcp::endpoint next_peer_;
  bool accepting_ = false;
  bool full_ = false;
  bool stopped_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  callback_timer pause_{[this] { accept_more(); }};
};

server::server(loop &l, service &s, const server_limits &limits) : impl_(std::make_unique<impl>(l, s, limits)) {}
server::~server() = default;
status server::listen(const std::string &address, bool reuse_port) { return impl_->listen(address, reuse_port); }
std::string server::address() const { return impl_->address_; }
uint16_t server::port() const { return impl_->port_; }
void server::use_tls(std::shared_ptr<const tls_identity> identity) { impl_->core_.tls = std::move(identity); }
void server::stop_accepting() { impl_->stop_accepting(); }
void server::drain() { impl_->core_.draining = true; }
void server::close_idle() { impl_->close_idle(); }
size_t server::busy() const { return impl_->core_.busy; }
const server_counters &server::counters() const { return impl_->core_.counters; }

}  // namespace hive::http
