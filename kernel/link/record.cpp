#include "link/record.hpp"

#include <charconv>
#include <cstring>

namespace hive::link {
namespace {

template <class T>
void put(uint8_t *to, T v) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<uint8_t>(v >> (8 * i));
}

template <class T>
T get(const char *from) {
  T v = 0;
  for (size_t i = 0; i < sizeof(T); ++i) v = static_cast<T>(v | static_cast<T>(static_cast<uint8_t>(from[i])) << (8 * i));
  return v;
}

}  // namespace

void encode_head(uint8_t *to, const record_head &h, size_t meta, size_t payload) {
  to[0] = protocol_version;
  to[1] = static_cast<uint8_t>(h.what);
  put<uint16_t>(to + 2, h.flags);
  put<uint32_t>(to + 4, static_cast<uint32_t>(meta + payload));
  put<uint64_t>(to + 8, h.stream);
  put<uint32_t>(to + 16, static_cast<uint32_t>(meta));
  put<uint32_t>(to + 20, h.credit);
  put<uint32_t>(to + 24, h.seq);
  put<uint32_t>(to + 28, h.aux);
}

size_t encode_record(uint8_t *to, const record_head &head, std::string_view meta, std::string_view payload) {
  encode_head(to, head, meta.size(), payload.size());
  uint8_t *at = to + record_header_bytes;
  if (!meta.empty()) std::memcpy(at, meta.data(), meta.size());
  if (!payload.empty()) std::memcpy(at + meta.size(), payload.data(), payload.size());
  const size_t len = meta.size() + payload.size();
  std::memset(at + len, 0, padded(len) - len);
  return record_header_bytes + padded(len);
}

frame_reader::outcome frame_reader::next(record &out) {
  if (bad_) return outcome::bad;
  if (rest_.empty()) return outcome::end;
  bad_ = true;
  if (rest_.size() < record_header_bytes) return outcome::bad;
  const char *p = rest_.data();
  const uint64_t len = get<uint32_t>(p + 4);
  const uint64_t meta = get<uint32_t>(p + 16);
  if (static_cast<uint8_t>(p[0]) != protocol_version || meta > len || meta > max_meta_bytes || len - meta > max_payload_bytes ||
      padded(len) > rest_.size() - record_header_bytes)
    return outcome::bad;
  out.what = static_cast<kind>(static_cast<uint8_t>(p[1]));
  out.flags = get<uint16_t>(p + 2);
  out.stream = get<uint64_t>(p + 8);
  out.credit = get<uint32_t>(p + 20);
  out.seq = get<uint32_t>(p + 24);
  out.aux = get<uint32_t>(p + 28);
  out.meta = rest_.substr(record_header_bytes, meta);
  out.payload = rest_.substr(record_header_bytes + meta, len - meta);
  rest_.remove_prefix(record_header_bytes + padded(len));
  bad_ = false;
  return outcome::record;
}

bool meta_writer::add(std::string_view key, std::string_view value) {
  if (!ok_ || key.size() > 0xffff || value.size() > 0xffff || count_ == 0xffff ||
      out_.size() + 4 + key.size() + value.size() > max_meta_bytes) {
    ok_ = false;
    return false;
  }
  ++count_;
  // One growth an entry: several are written for every request.
  const size_t at = out_.size();
  out_.resize(at + 4 + key.size() + value.size());
  auto *to = reinterpret_cast<uint8_t *>(out_.data()) + at;
  put<uint16_t>(to, static_cast<uint16_t>(key.size()));
  put<uint16_t>(to + 2, static_cast<uint16_t>(value.size()));
  if (!key.empty()) std::memcpy(to + 4, key.data(), key.size());
  if (!value.empty()) std::memcpy(to + 4 + key.size(), value.data(), value.size());
  out_[0] = static_cast<char>(count_ & 0xff);
  out_[1] = static_cast<char>(count_ >> 8);
  return true;
}

bool meta_writer::add(std::string_view key, uint64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return add(key, std::string_view(digits, static_cast<size_t>(end - digits)));
}

meta_reader::meta_reader(std::string_view block) : rest_(block) {
  if (block.empty()) return;
  if (block.size() < 2) {
    bad_ = true;
    return;
  }
  left_ = get<uint16_t>(block.data());
  rest_.remove_prefix(2);
  if (left_ * 4 > rest_.size()) {
    bad_ = true;
    left_ = 0;
  }
}

bool meta_reader::next(std::string_view &key, std::string_view &value) {
  if (bad_ || left_ == 0) return false;
  bad_ = true;
  if (rest_.size() < 4) return false;
  const size_t klen = get<uint16_t>(rest_.data());
  const size_t vlen = get<uint16_t>(rest_.data() + 2);
  if (klen + vlen > rest_.size() - 4) return false;
  key = rest_.substr(4, klen);
  value = rest_.substr(4 + klen, vlen);
  rest_.remove_prefix(4 + klen + vlen);
  --left_;
  bad_ = false;
  return true;
}

uint64_t number_or(std::string_view decimal, uint64_t otherwise) {
  uint64_t v = 0;
  const auto [end, error] = std::from_chars(decimal.data(), decimal.data() + decimal.size(), v);
  return error == std::errc() && end == decimal.data() + decimal.size() && !decimal.empty() ? v : otherwise;
}

}  // namespace hive::link
