#include "http/connector.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/basic_resolver.hpp>
#include <utility>

namespace hive::http {

connector::connector(loop &l, std::string where, connect_events &events)
    : loop_(l), where_(std::move(where)), events_(&events), resolver_(l.io().get_executor()) {}

boost::intrusive_ptr<connector> connector::start(loop &l, const std::string &host, uint16_t port, uint64_t timeout_ns,
                                                 connect_events &events) {
  const bool v6 = host.find(':') != std::string::npos;
  std::string where = (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
  boost::system::error_code not_literal;
  const auto literal = boost::asio::ip::make_address(host, not_literal);
  if (!not_literal) return start(l, std::move(where), {{literal, port}}, timeout_ns, events);
  self_ptr self(new connector(l, std::move(where), events));
  l.arm_in(self->timeout_, timeout_ns);
  self->resolver_.async_resolve(
      host, std::to_string(port), boost::asio::ip::resolver_base::numeric_service,
      [self](const boost::system::error_code &error, const resolver::results_type &results) {
        if (self->events_ == nullptr) return;
        if (error) return self->finish_failed(false, "the name does not resolve: " + error.message());
        std::vector<endpoint> found;
        for (const auto &entry : results) found.push_back(entry.endpoint());
        self->order(std::move(found));
        self->try_next();
      });
  return self;
}

boost::intrusive_ptr<connector> connector::start(loop &l, std::string where, std::vector<endpoint> found, uint64_t timeout_ns,
                                                 connect_events &events) {
  self_ptr self(new connector(l, std::move(where), events));
  l.arm_in(self->timeout_, timeout_ns);
  self->order(std::move(found));
  self->try_next();
  return self;
}

// The resolver's first choice first, then the families in turn, so that a dead family costs one stagger.
void connector::order(std::vector<endpoint> found) {
  while (!found.empty()) {
    const bool want_v6 = endpoints_.empty() ? found.front().address().is_v6() : !endpoints_.back().address().is_v6();
    auto it = std::find_if(found.begin(), found.end(), [&](const endpoint &e) { return e.address().is_v6() == want_v6; });
    if (it == found.end()) it = found.begin();
    if (std::find(endpoints_.begin(), endpoints_.end(), *it) == endpoints_.end()) endpoints_.push_back(*it);
    found.erase(it);
  }
}

void connector::try_next() {
  if (events_ == nullptr || attempts_.size() >= endpoints_.size()) return;
  const size_t index = attempts_.size();
  attempts_.push_back(std::make_unique<loop_socket>(loop_.io().get_executor()));
  if (attempts_.size() < endpoints_.size()) loop_.arm_in(stagger_, stagger_ns);
  attempts_.back()->async_connect(endpoints_[index], [self = self_ptr(this), index](const boost::system::error_code &error) {
    self->on_attempt(index, error);
  });
}

void connector::on_attempt(size_t index, const boost::system::error_code &error) {
  if (events_ == nullptr) return;
  if (error) {
    ++failed_;
    last_error_ = error.message();
    attempts_[index].reset();
    if (attempts_.size() < endpoints_.size()) return try_next();
    if (failed_ == endpoints_.size()) finish_failed(false, last_error_);
    return;
  }
  loop_socket winner = std::move(*attempts_[index]);
  connect_events *told = events_;
  cancel();
  boost::system::error_code ignored;
  winner.non_blocking(true, ignored);
  winner.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  told->on_connected(std::move(winner));
}

void connector::on_timeout() {
  finish_failed(true, last_error_.empty() ? "no answer in time" : "no answer in time, and earlier " + last_error_);
}

void connector::finish_failed(bool timed_out, const std::string &why) {
  if (events_ == nullptr) return;
  connect_events *told = events_;
  cancel();
  told->on_connect_failed(timed_out, "cannot connect to " + where_ + ": " + why);
}

void connector::cancel() {
  events_ = nullptr;
  stagger_.disarm();
  timeout_.disarm();
  resolver_.cancel();
  attempts_.clear();
}

}  // namespace hive::http
