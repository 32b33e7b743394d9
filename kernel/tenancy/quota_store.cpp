#include "tenancy/quota_store.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "observe/log.hpp"

namespace hive::tenancy {

namespace {

constexpr std::string_view quota_prefix = "quotaTPD:";
constexpr size_t value_bytes = 8;
constexpr uint64_t told_every_ns = 60 * ns_per_s;

}  // namespace

std::string quota_record_key(const day_record &r) {
  std::string key(quota_prefix);
  key += r.budget;
  key += ':';
  key += std::to_string(r.day);
  return key;
}

std::string quota_record_value(uint64_t used) {
  std::string value;
  for (int shift = 56; shift >= 0; shift -= 8) value += static_cast<char>(static_cast<uint8_t>(used >> shift));
  return value;
}

std::optional<day_record> quota_record(std::string_view key, std::string_view value) {
  if (!key.starts_with(quota_prefix) || value.size() != value_bytes) return std::nullopt;
  const size_t colon = key.rfind(':');
  if (colon < quota_prefix.size()) return std::nullopt;  // the prefix's own
  day_record r;
  r.budget = key.substr(quota_prefix.size(), colon - quota_prefix.size());
  const std::string_view day = key.substr(colon + 1);
  const auto [end, error] = std::from_chars(day.data(), day.data() + day.size(), r.day);
  if (error != std::errc() || end != day.data() + day.size()) return std::nullopt;
  for (const char c : value) r.used = r.used << 8 | static_cast<uint8_t>(c);
  if (r.used > INT64_MAX) return std::nullopt;  // a negative number of the Go product's
  return r;
}

void quota_store::load(uint64_t limit_ns) {
  auto done = std::make_shared<std::promise<void>>();
  auto waited = done->get_future();
  const bool posted = storage_.post([this, done](fleet::storage_client &client) {
    read(client);
    done->set_value();
  });
  if (posted) waited.wait_for(std::chrono::nanoseconds(limit_ns));
  next_ns_ = clock_.now() + period_ns;
}

void quota_store::tick() {
  if (clock_.now() < next_ns_) return;
  next_ns_ = clock_.now() + period_ns;
  flush();
}

// A slow disk gets one job at a time: what changes meanwhile goes with the next.
void quota_store::flush() {
  if (busy_.exchange(true, std::memory_order_acq_rel)) return;
  const bool posted = storage_.post([this](fleet::storage_client &client) {
    busy_.store(false, std::memory_order_release);
    if (!loaded() || day_ != days_.today()) read(client);
    if (loaded() && day_ == days_.today()) write(client);
  });
  if (!posted) busy_.store(false, std::memory_order_release);
}

void quota_store::read(fleet::storage_client &client) {
  std::vector<day_record> found;
  const uint64_t today = days_.today();
  uint64_t unread = 0;
  const status s = client.scan(quota_prefix, [&](std::string_view key, std::string_view value) {
    auto record = quota_record(key, value);
    if (!record) ++unread;
    else if (record->day == today) found.push_back(*std::move(record));
    return true;
  });
  if (!s) return failed(1, "could not be read; limits count from zero until they are", s);
  if (unread != 0) failed(unread, "are no records of ours and do not count", fail(errc::invalid, std::to_string(unread) + " record(s)"));
  day_ = today;
  days_.restore(found, !read_days_.insert(today).second);
  loaded_.store(true, std::memory_order_release);
}

void quota_store::write(fleet::storage_client &client) {
  const std::vector<day_record> changed = days_.take_changed();
  if (changed.empty()) return;
  std::vector<fleet::stored_write> ops;
  ops.reserve(changed.size());
  const uint64_t expires = clock_.wall_ms() + kept_ms;
  for (const day_record &r : changed) ops.push_back({quota_record_key(r), quota_record_value(std::min<uint64_t>(r.used, INT64_MAX)), expires, false});
  const status s = client.write(ops);
  if (s) return;
  days_.changed_again(changed);
  failed(changed.size(), "could not be written; they count in memory and are tried again", s);
}

void quota_store::failed(uint64_t records, std::string_view what, const status &why) {
  errors_.fetch_add(records, std::memory_order_relaxed);
  const uint64_t now = clock_.now();
  if (told_ns_ != 0 && now - told_ns_ < told_every_ns) return;
  told_ns_ = now;
  observe::log("storage").warn("tokens used today {}: {}", what, why.text());
}

}  // namespace hive::tenancy
