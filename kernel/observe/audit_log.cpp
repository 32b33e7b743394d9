#include "observe/audit_log.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "observe/append_file.hpp"
#include "observe/log.hpp"

namespace hive::observe {

namespace {

constexpr size_t write_at_once = 256 * 1024;        // so much is not gathered any further
constexpr size_t keep_capacity = 1 << 20;
constexpr uint64_t told_every_ns = 60 * ns_per_s;

uint64_t lines_of(std::string_view text) {
  uint64_t n = 0;
  for (size_t at = 0; (at = text.find('\n', at)) != std::string_view::npos; ++at) ++n;
  return n;
}

std::chrono::steady_clock::time_point in(uint64_t ns) { return std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns); }

}  // namespace

struct audit_log::shared {
  explicit shared(audit_options o) : options(std::move(o)) {}

  const audit_options options;
  zone place;
  audit_counters counters;

  std::mutex mutex;                 // guards what follows
  std::condition_variable wake;     // of the writer
  std::condition_variable ended;
  std::condition_variable room;     // of those who wait for the writer (overflow::block)
  std::string filling;              // lines handed over
  size_t carried = 0;               // bytes that the writer has taken and not written
  bool asleep = false;              // the writer waits for a first line
  bool reopening = false, stopping = false, running = false, over = false;
  bool hopeless = false;            // a wait for room was in vain and the file has taken nothing since
  uint64_t stop_at_ns = never_ns;
  std::atomic<bool> abandoned{false};   // by a stop() that waited in vain: nothing of its owner may be touched

  // The writer's own.
  append_file file;
  std::string batch;
  size_t done = 0;                  // of batch
  uint64_t told_ns = 0;

  bool fits(size_t line) const { return filling.size() + carried + line <= options.queue_bytes; }
  bool wait_for_room(std::unique_lock<std::mutex> &, size_t line);
  void run();
  void wait(std::unique_lock<std::mutex> &);
  void open_again();
  void put();
  void tell(const status &);
};

audit_log::audit_log(audit_options options) : shared_(std::make_shared<shared>(std::move(options))) {}
audit_log::~audit_log() { stop(); }
const audit_counters &audit_log::counters() const { return shared_->counters; }

status audit_log::start() {
  shared &s = *shared_;
  if (auto place = zone::named(s.options.zone)) s.place = *place;
  else log("router").warn("audit: {}; ts is in UTC", place.why().text());
  if (const status opened = s.file.open(s.options.path); !opened) {
    if (s.options.required) return opened;
    log("router").warn("audit: {}; lines go to stdout", opened.text());
    if (const status out = s.file.open("-"); !out) return out;
  }
  ++s.counters.opened;
  s.running = true;
  std::thread([kept = shared_] { kept->run(); }).detach();
  return {};
}

void audit_log::write(const audit_entry &entry) {
  static thread_local std::string line;
  line.clear();
  append_audit_line(line, entry, shared_->place);
  add(line, true);
}

void audit_log::write(const admin_action &action) {
  std::string line;
  append_admin_line(line, action, shared_->place);
  add(line, false);
}

void audit_log::add(std::string_view line, bool may_wait) {
  shared &s = *shared_;
  bool call = false;
  {
    std::unique_lock lock(s.mutex);
    if (!s.running || s.stopping || (!s.fits(line.size()) && !(may_wait && s.wait_for_room(lock, line.size())))) {
      s.counters.dropped_full.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    const size_t before = s.filling.size();
    s.filling += line;
    call = std::exchange(s.asleep, false) || (before < write_at_once && s.filling.size() >= write_at_once);
  }
  if (call) s.wake.notify_one();
}

// Whether there is room now.
bool audit_log::shared::wait_for_room(std::unique_lock<std::mutex> &lock, size_t line) {
  if (options.when_full == overflow::drop || hopeless || line > options.queue_bytes) return false;
  const uint64_t began = now_ns();
  const bool came = room.wait_until(lock, in(options.block_ns), [&] { return fits(line) || hopeless || stopping; });
  counters.blocked.fetch_add(1, std::memory_order_relaxed);
  counters.blocked_ns.fetch_add(now_ns() - began, std::memory_order_relaxed);
  if (!came) {
    hopeless = true;
    room.notify_all();
  }
  return fits(line) && !stopping;
}

void audit_log::reopen() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->reopening = true;
    shared_->asleep = false;
  }
  shared_->wake.notify_one();
}

void audit_log::stop() {
  shared &s = *shared_;
  std::unique_lock lock(s.mutex);
  if (!s.running) return;
  if (!s.stopping) {
    s.stopping = true;
    s.stop_at_ns = now_ns() + s.options.stop_ns;
    s.wake.notify_one();
    s.room.notify_all();
  }
  if (!s.ended.wait_until(lock, in(s.options.stop_ns + ns_per_s), [&] { return s.over; })) s.abandoned = true;
}

void audit_log::shared::wait(std::unique_lock<std::mutex> &lock) {
  if (done < batch.size()) {  // the file takes nothing now
    wake.wait_until(lock, in(options.retry_ns), [&] { return reopening || (stopping && now_ns() >= stop_at_ns); });
    return;
  }
  if (filling.empty() && !stopping && !reopening) {
    asleep = true;
    wake.wait(lock, [&] { return !filling.empty() || stopping || reopening; });
    asleep = false;
  }
  wake.wait_until(lock, in(options.gather_ns), [&] { return filling.size() >= write_at_once || stopping || reopening; });
}

void audit_log::shared::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    wait(lock);
    const bool again = std::exchange(reopening, false);
    if (done == batch.size()) {
      batch.clear();
      if (batch.capacity() > keep_capacity) std::string().swap(batch);
      batch.swap(filling);
      done = 0;
    }
    carried = batch.size() - done;
    counters.queued_bytes.store(carried, std::memory_order_relaxed);
    lock.unlock();
    if (again || (done < batch.size() && !file.still_there())) open_again();
    const size_t before = batch.size() - done;
    put();
    lock.lock();
    carried = batch.size() - done;
    if (carried < before) {
      hopeless = false;
      room.notify_all();
    }
    counters.queued_bytes.store(filling.size() + carried, std::memory_order_relaxed);
    if (!stopping) continue;
    if ((done == batch.size() && filling.empty()) || now_ns() >= stop_at_ns) break;
  }
  counters.dropped_stop.fetch_add(lines_of(std::string_view(batch).substr(done)) + lines_of(filling), std::memory_order_relaxed);
  over = true;
  ended.notify_all();
}

// A line that was cut where the old file would take no more begins again in the new one.
void audit_log::shared::open_again() {
  if (const status s = file.open(options.path); !s) return tell(s);
  ++counters.opened;
  if (done > 0 && done < batch.size()) done = batch.rfind('\n', done - 1) + 1;  // npos + 1 is the start
}

void audit_log::shared::put() {
  constexpr int patience_ms = 100;
  if (done == batch.size()) return;
  const uint64_t began = now_ns();
  status why;
  const size_t taken = file.write(std::string_view(batch).substr(done), patience_ms, why);
  if (abandoned) return;
  counters.written.fetch_add(lines_of(std::string_view(batch).substr(done, taken)), std::memory_order_relaxed);
  done += taken;
  options.write_seconds.observe(static_cast<double>(now_ns() - began) / static_cast<double>(ns_per_s));
  if (!why.ok()) {
    counters.write_errors.fetch_add(1, std::memory_order_relaxed);
    tell(why);
  }
}

void audit_log::shared::tell(const status &why) {
  const uint64_t now = now_ns();
  if (told_ns != 0 && now - told_ns < told_every_ns) return;
  told_ns = now;
  if (options.when_full == overflow::block)
    log("router").warn("audit: {}; once {} bytes of lines wait, requests wait with them, and after {} ms lines are dropped and counted", why.text(),
                       options.queue_bytes, options.block_ns / ns_per_ms);
  else
    log("router").warn("audit: {}; lines wait in memory, and are dropped and counted once {} bytes wait", why.text(), options.queue_bytes);
}

}  // namespace hive::observe
