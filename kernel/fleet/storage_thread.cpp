#include "fleet/storage_thread.hpp"

#include <chrono>
#include <future>

#include "base/clock.hpp"
#include "base/loop.hpp"
#include "plugins/error_words.hpp"

namespace hive::fleet {
namespace {

hive_bytes bytes_of(std::string_view text) { return {reinterpret_cast<const uint8_t *>(text.data()), text.size()}; }
std::string_view text_of(hive_bytes b) { return {reinterpret_cast<const char *>(b.ptr), b.len}; }

status answer(hive_status s, std::string_view call, const plugins::error_words &why = {}) {
  if (s >= 0) return {};
  return fail(plugins::code_of(s), why.or_else(std::string(call) + " failed with code " + std::to_string(s)), "storage");
}

}  // namespace

result<std::optional<std::string>> storage_client::get(std::string_view key) {
  std::optional<std::string> found;
  const hive_visitor visitor{sizeof(hive_visitor), 0, &found, [](void *ctx, hive_bytes, hive_bytes value, uint64_t) noexcept -> int32_t {
                               *static_cast<std::optional<std::string> *>(ctx) = std::string(text_of(value));
                               return 0;
                             }};
  const hive_status s = ref_.table->get(ref_.self, bytes_of(key), now_ns() + call_limit_ns, &visitor);
  if (s < 0) return answer(s, "get");
  if (s == HIVE_NOT_FOUND) found.reset();
  return found;
}

status storage_client::scan(std::string_view prefix, const std::function<bool(std::string_view, std::string_view)> &visit) {
  const hive_visitor visitor{sizeof(hive_visitor), 0, const_cast<void *>(static_cast<const void *>(&visit)),
                             [](void *ctx, hive_bytes key, hive_bytes value, uint64_t) noexcept -> int32_t {
                               const auto &f = *static_cast<const std::function<bool(std::string_view, std::string_view)> *>(ctx);
                               return f(text_of(key), text_of(value)) ? 0 : 1;
                             }};
  return answer(ref_.table->scan(ref_.self, bytes_of(prefix), now_ns() + call_limit_ns, &visitor), "scan");
}

status storage_client::write(const std::vector<stored_write> &ops) {
  std::vector<hive_write> writes(ops.size());
  std::vector<hive_write *> pointers;
  for (size_t i = 0; i < ops.size(); ++i) {
    writes[i].struct_size = sizeof(hive_write);
    writes[i].op = ops[i].erase ? HIVE_WRITE_ERASE : HIVE_WRITE_PUT;
    writes[i].key = bytes_of(ops[i].key);
    writes[i].value = bytes_of(ops[i].value);
    writes[i].expires_unix_ms = ops[i].expires_unix_ms;
    pointers.push_back(&writes[i]);
  }
  plugins::error_words why;
  return answer(ref_.table->write(ref_.self, pointers.data(), pointers.size(), now_ns() + call_limit_ns, why.sink()), "write", why);
}

std::optional<hive_storage_stats> storage_client::stats() {
  if (!HIVE_HAS(hive_storage_vtable, ref_.table, stats) || ref_.table->stats == nullptr) return std::nullopt;
  hive_storage_stats out{};
  out.struct_size = sizeof out;
  if (ref_.table->stats(ref_.self, &out) < 0) return std::nullopt;
  return out;
}

storage_thread::storage_thread(storage_ref ref, size_t max_jobs, uint64_t sweep_period_ns)
    : client_(ref), max_jobs_(max_jobs), sweep_period_ns_(sweep_period_ns) {}

status storage_thread::open() {
  std::promise<status> opened;
  std::future<status> answer_of = opened.get_future();
  {
    std::lock_guard lock(mutex_);
    if (running_ || stopping_) return fail(errc::conflict, "the storage thread was started before", "storage");
    running_ = true;
  }
  thread_ = std::thread([this, &opened] {
    plugins::error_words why;
    const hive_status s = client_.ref().table->open(client_.ref().self, why.sink());
    opened.set_value(answer(s, "open", why));
    if (s >= 0) run();
    client_.ref().table->close(client_.ref().self);
  });
  status s = answer_of.get();
  if (!s) stop();
  return s;
}

bool storage_thread::post(job j) {
  {
    std::lock_guard lock(mutex_);
    if (!running_ || stopping_ || jobs_.size() >= max_jobs_) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    jobs_.push_back(std::move(j));
  }
  wake_.notify_one();
  return true;
}

void storage_thread::write(std::vector<stored_write> ops, loop &control, std::function<void(status)> done) {
  const bool posted = post([&control, ops = std::move(ops), done](storage_client &client) {
    const status s = client.write(ops);
    control.post([done, s] { done(s); });
  });
  if (!posted)
    control.post([done] { done(fail(errc::unavailable, "the storage thread's line is full, or it has stopped; try again", "storage")); });
}

void storage_thread::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

size_t storage_thread::waiting() const {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

void storage_thread::run() {
  const std::chrono::nanoseconds sweep_period(sweep_period_ns_);
  auto next_sweep = std::chrono::steady_clock::now() + sweep_period;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait_until(lock, next_sweep, [this] { return stopping_ || !jobs_.empty(); });
    if (!jobs_.empty()) {
      job j = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      j(client_);
      j = nullptr;
      lock.lock();
    } else if (stopping_) {
      return;
    }
    if (std::chrono::steady_clock::now() < next_sweep) continue;
    next_sweep = std::chrono::steady_clock::now() + sweep_period;
    const hive_storage_vtable &table = *client_.ref().table;
    if (!HIVE_HAS(hive_storage_vtable, &table, sweep) || table.sweep == nullptr) continue;
    lock.unlock();
    if (const hive_status s = table.sweep(client_.ref().self, now_ns() + ns_per_s); s < 0) {
      sweep_failure_.store(plugins::code_of(s), std::memory_order_relaxed);
      failed_sweeps_.fetch_add(1, std::memory_order_release);
    }
    lock.lock();
  }
}

}  // namespace hive::fleet
