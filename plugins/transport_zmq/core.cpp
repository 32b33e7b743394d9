#include "core.hpp"

#include <cstring>

namespace hive::transport_zmq {

bool gather(const hive_bytes *parts, size_t count, zmq_msg_t &out, hive_status &why) {
  size_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    total += parts[i].len;
    if (total > max_message_bytes) break;
  }
  if (total == 0 || total > max_message_bytes) {
    why = HIVE_E_ARGUMENT;
    return false;
  }
  if (zmq_msg_init_size(&out, total) != 0) {
    why = HIVE_E_EXHAUSTED;
    return false;
  }
  auto *to = static_cast<uint8_t *>(zmq_msg_data(&out));
  for (size_t i = 0; i < count; ++i) {
    if (parts[i].len == 0) continue;
    std::memcpy(to, parts[i].ptr, parts[i].len);
    to += parts[i].len;
  }
  return true;
}

}  // namespace hive::transport_zmq
