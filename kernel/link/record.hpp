// Records: what travels between router and agent. A frame (one message of the transport) holds one or more records back to
// back. Pure functions over bytes, any thread. Little endian throughout.
//
//   0 u8 version  1 u8 kind  2 u16 flags  4 u32 len  8 u64 stream  16 u32 meta_len  20 u32 credit  24 u32 seq  28 u32 aux
//   then meta_len bytes of metadata, len - meta_len bytes of payload, zeros up to the next multiple of 8
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hive::link {

inline constexpr uint8_t protocol_version = 1;
inline constexpr size_t record_header_bytes = 32;
inline constexpr size_t max_meta_bytes = 32 * 1024;
inline constexpr size_t max_payload_bytes = 64 * 1024;
inline constexpr size_t max_frame_bytes = 128 * 1024;
inline constexpr size_t flush_frame_bytes = 32 * 1024;

enum class kind : uint8_t {
  hello = 1, challenge, auth, welcome, kick, ping, pong, heartbeat, ack, signals, models, drain, goodbye, goaway,
  open = 20, body, accept, refuse, head, data, credit, cancel, reset,
};

enum record_flag : uint16_t {
  flag_end = 1,         // the last record of this direction
  flag_streaming = 2,   // OPEN: the client asked for a stream; HEAD: the answer is one
  flag_first = 4,       // the first DATA of a stream
  flag_retryable = 8,   // RESET: no byte reached the engine
  flag_critical = 16,   // whoever does not know this kind must end the link
};

// epoch 16 | worker 8 | counter 40; 0 is the link itself.
inline constexpr uint64_t make_stream_id(uint16_t epoch, uint32_t worker, uint64_t counter) {
  return static_cast<uint64_t>(epoch) << 48 | static_cast<uint64_t>(worker & 0xff) << 40 | (counter & 0xff'ffff'ffff);
}
inline constexpr uint16_t epoch_of(uint64_t stream) { return static_cast<uint16_t>(stream >> 48); }

struct record_head {
  kind what{};
  uint16_t flags = 0;
  uint64_t stream = 0;
  uint32_t credit = 0;
  uint32_t seq = 0;
  uint32_t aux = 0;
};

// A decoded record; meta and payload are borrowed from the frame.
struct record : record_head {
  std::string_view meta;
  std::string_view payload;
};

inline constexpr size_t padded(size_t n) { return (n + 7) & ~size_t{7}; }
inline size_t encoded_bytes(size_t meta, size_t payload) { return record_header_bytes + padded(meta + payload); }

// The kinds that use link credit.
inline constexpr bool is_charged(kind k) { return k == kind::open || k == kind::body || k == kind::head || k == kind::data; }
inline constexpr uint32_t link_charge(size_t len) { return len < 256 ? 256 : static_cast<uint32_t>(len); }
// An empty payload (a bare END) costs no stream credit: a slow reader must not keep the agent's slot.
inline constexpr uint32_t stream_charge(size_t payload) { return payload == 0 ? 0 : link_charge(payload); }

// Requires: meta <= max_meta_bytes, payload <= max_payload_bytes; `to` has 32 bytes.
void encode_head(uint8_t *to, const record_head &head, size_t meta, size_t payload);
// Writes a whole record, returns encoded_bytes().
size_t encode_record(uint8_t *to, const record_head &head, std::string_view meta, std::string_view payload);

// Walks the records of a frame in place.
class frame_reader {
 public:
  enum class outcome { record, end, bad };
  explicit frame_reader(std::string_view frame) : rest_(frame), bad_(frame.empty() || frame.size() > max_frame_bytes) {}
  outcome next(record &out);  // after end or bad it stays so

 private:
  std::string_view rest_;
  bool bad_;
};

// Stream metadata: u16 n, n x { u16 klen, u16 vlen, key, value }.
class meta_writer {
 public:
  meta_writer() { out_.reserve(usual_bytes); }
  // False when an entry or the whole block is too large; the block is then unusable.
  bool add(std::string_view key, std::string_view value);
  bool add(std::string_view key, uint64_t value);  // decimal
  std::string take() { return std::move(out_); }
  bool ok() const { return ok_; }

 private:
  static constexpr size_t usual_bytes = 512;  // of a request's head
  std::string out_ = std::string(2, '\0');
  uint16_t count_ = 0;
  bool ok_ = true;
};

class meta_reader {
 public:
  explicit meta_reader(std::string_view block);
  bool next(std::string_view &key, std::string_view &value);  // false at the end, and on a bad block
  bool bad() const { return bad_; }
  size_t left() const { return left_; }

 private:
  std::string_view rest_;
  size_t left_ = 0;
  bool bad_ = false;
};

uint64_t number_or(std::string_view decimal, uint64_t otherwise);

}  // namespace hive::link
