#include "hivenet_bench/load.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>

#include "base/clock.hpp"
#include "hivenet_bench/answer_reader.hpp"
#include "hivenet_bench/process_cpu.hpp"

namespace hive::bench {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr auto reconnect_pause = std::chrono::milliseconds(10);

uint64_t own_cpu_us() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  const auto us = [](const timeval &t) { return static_cast<uint64_t>(t.tv_sec) * 1'000'000 + static_cast<uint64_t>(t.tv_usec); };
  return us(u.ru_utime) + us(u.ru_stime);
}

// What all connections of a run share.
struct run_state {
  const load_options &options;
  load_report report;
  bool measuring = false;
  uint64_t answers = 0;  // warm-up included
};

// One connection and its endless row of requests. It is closed only by its own read handler, so a queued completion never
// meets a socket that somebody else has closed; only a write can outlive its connection, and it carries the generation.
class connection {
 public:
  connection(asio::io_context &io, const tcp::endpoint &server, run_state &run)
      : socket_(io), pause_(io), server_(server), run_(run) {
    if (run.options.stamped) reader_.watch_stamps();
  }

  void open_in(uint64_t ns) {
    if (ns == 0) return open();
    pause_.expires_after(std::chrono::nanoseconds(ns));
    pause_.async_wait([this](const error_code &error) {
      if (!error) open();
    });
  }

  void open() {
    ++generation_;
    writing_ = false;
    socket_.async_connect(server_, [this](const error_code &error) {
      if (error) return reopen(run_.report.connect_failed);
      error_code ignored;
      socket_.non_blocking(true, ignored);
      socket_.set_option(tcp::no_delay(true), ignored);
      send();
    });
  }

 private:
  void reopen(uint64_t &counter) {
    if (run_.measuring) ++counter;
    error_code ignored;
    socket_.close(ignored);
    pause_.expires_after(reconnect_pause);
    pause_.async_wait([this](const error_code &error) {
      if (!error) open();
    });
  }

  void send() {
    reader_.reset();
    sent_ns_ = now_ns();
    seen_events_ = 0;
    error_code error;
    const size_t n = socket_.write_some(asio::buffer(run_.options.request), error);
    if (n < run_.options.request.size() && (!error || error == asio::error::would_block)) {
      writing_ = true;
      asio::async_write(socket_, asio::buffer(run_.options.request) + n, [this, g = generation_](const error_code &, size_t) {
        if (g == generation_) writing_ = false;  // a failure shows in the read, too
      });
    }
    read();
  }

  void read() {
    socket_.async_read_some(asio::buffer(buffer_), [this](const error_code &error, size_t n) {
      if (error) return reopen(run_.report.closed_early);
      reader_.take({buffer_.data(), n});
      const uint64_t now = now_ns();
      if (run_.options.stream) note_events(now);
      if (reader_.broken()) return reopen(run_.report.malformed);
      if (!reader_.done()) return read();
      note_answer(now);
      const bool refused = reader_.status() / 100 != 2 && run_.options.refused_pause_ns > 0;
      if (reader_.keep_alive() && !writing_) return refused ? send_later() : send();
      error_code ignored;
      socket_.close(ignored);
      open();
    });
  }

  // A client that was told to come back does so.
  void send_later() {
    pause_.expires_after(std::chrono::nanoseconds(run_.options.refused_pause_ns));
    pause_.async_wait([this](const error_code &error) {
      if (!error) send();
    });
  }

  void note_events(uint64_t now) {
    for (const uint64_t made : reader_.stamps())
      if (run_.measuring) run_.report.delay_ns.push_back(now > made ? now - made : 0);
    reader_.stamps().clear();
    const uint64_t events = reader_.events();
    if (run_.measuring) {
      run_.report.events += events - seen_events_;
      if (seen_events_ == 0 && events > 0) run_.report.first_event_ns.push_back(now - sent_ns_);
    }
    seen_events_ = events;
  }

  void note_answer(uint64_t now) {
    ++run_.answers;
    if (!run_.measuring) return;
    load_report &r = run_.report;
    ++r.statuses[reader_.status()];
    if (reader_.status() / 100 != 2) return;
    ++r.requests;
    r.latency_ns.push_back(now - sent_ns_);
    if (!run_.options.stream) return;
    r.fewest_events = std::min(r.fewest_events, reader_.events());
    r.most_events = std::max(r.most_events, reader_.events());
    if (!reader_.ended_with_done()) ++r.without_done;
  }

  tcp::socket socket_;
  asio::steady_timer pause_;
  const tcp::endpoint &server_;
  run_state &run_;
  answer_reader reader_;
  uint64_t sent_ns_ = 0;
  uint64_t seen_events_ = 0;
  uint64_t generation_ = 0;
  bool writing_ = false;
  std::array<char, 16 * 1024> buffer_;
};

result<std::vector<uint64_t>> cpu_of(const std::vector<watched_process> &watched) {
  std::vector<uint64_t> out;
  for (const watched_process &p : watched) {
    const auto us = process_cpu_us(p.pid);
    if (!us) return fail(us.why().code(), "cannot read the CPU time of " + p.name + ": " + us.why().text(), "--pid");
    out.push_back(*us);
  }
  return out;
}

}  // namespace

result<load_report> run_load(const load_options &options) {
  asio::io_context io(1);
  error_code error;
  const auto found = tcp::resolver(io).resolve(options.host, options.port, error);
  if (error) return fail(errc::unavailable, "cannot resolve " + options.host + ":" + options.port + ": " + error.message(), "--url");
  const tcp::endpoint server = found.begin()->endpoint();

  run_state run{options, {}};
  run.report.latency_ns.reserve(1 << 20);
  run.report.first_event_ns.reserve(1 << 16);
  if (options.stamped) run.report.delay_ns.reserve(1 << 19);
  std::vector<std::unique_ptr<connection>> connections;
  for (size_t i = 0; i < options.connections; ++i) connections.push_back(std::make_unique<connection>(io, server, run));
  for (size_t i = 0; i < connections.size(); ++i) connections[i]->open_in(options.ramp_ns / connections.size() * i);

  io.run_for(std::chrono::nanoseconds(options.warm_up_ns));
  const auto before = cpu_of(options.watched);
  if (!before) return before.why();
  const uint64_t own_before = own_cpu_us(), began_ns = now_ns();
  run.measuring = true;
  io.run_for(std::chrono::nanoseconds(options.measured_ns));
  run.measuring = false;
  const uint64_t ended_ns = now_ns();
  run.report.own_cpu_us = own_cpu_us() - own_before;
  const auto after = cpu_of(options.watched);
  if (!after) return after.why();

  run.report.seconds = static_cast<double>(ended_ns - began_ns) / static_cast<double>(ns_per_s);
  for (size_t i = 0; i < after->size(); ++i) run.report.cpu_us.push_back((*after)[i] - (*before)[i]);
  if (run.answers == 0 && run.report.connect_failed > 0)
    return fail(errc::unavailable, "nobody accepts connections at " + options.host + ":" + options.port, "--url");
  connections.clear();
  return std::move(run.report);
}

}  // namespace hive::bench
