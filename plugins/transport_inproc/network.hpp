// What instances of one process share: the names that are listened on, the mailboxes they receive from, the wires
// between two of them. Any thread; every lock is held for a few assignments.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "hive/abi/transport.h"

namespace hive::transport_inproc {

using key32 = std::array<uint8_t, HIVE_KEY_BYTES>;

// A message travels by pointer: made by the sender, released by whoever holds it last.
struct message : hive_message {
  std::atomic<uint32_t> refs{1};
  static message *make(const hive_bytes *parts, size_t count, size_t total);
  void drop() noexcept;
};

class mailbox;

// One connection. Each side owns the half with its own index (0 dials, 1 listens).
struct wire {
  struct half {
    std::shared_ptr<mailbox> box;
    hive_peer peer = 0;                  // this side's name of the connection; set before the other side sees the wire
    std::atomic<uint32_t> queued{0};     // messages on their way to this side
    std::atomic<bool> starved{false};    // the sender towards this side was answered HIVE_FULL
  } side[2];
  std::atomic<bool> open{true};
  key32 dialler{}, pin{};                // the dialler's key, and the listener's that it expects; set before the other side sees it
};

struct event {
  enum kind { dialled, accepted, refused, message_in, closed, room } what;
  std::shared_ptr<wire> on;
  int to = 0;                            // index of the receiving side
  message *body = nullptr;
  int32_t reason = 0;                    // refused, closed
  const char *text = "";
};

// Events for one instance, and what wakes its loop: the host's request_pump for a sender on the same thread, else the
// descriptor, which costs three system calls.
class mailbox {
 public:
  explicit mailbox(const hive_host *);
  ~mailbox();
  int fd() const { return fd_; }
  bool post(event &&e);                  // false: shut
  void take_all(std::deque<event> &out); // `out` is empty before; fd() is not readable any more; by the thread that pumps
  std::deque<event> shut();              // what was left; nothing is taken afterwards

 private:
  int fd_;
  std::mutex mutex_;                     // guards all below
  const hive_host *host_;                // may be gone once shut
  const void *thread_ = nullptr;         // who took last
  std::deque<event> events_;
  bool signalled_ = false;               // fd() is readable
  bool shut_ = false;
};

// Whether it is a literal HOST:PORT: what is wrong with it, or empty.
std::string check_address(std::string_view address);
// Binds HOST:PORT to a mailbox; port 0 takes the first free number from 1. Returns what went wrong, or empty.
std::string bind_name(std::string_view address, const std::shared_ptr<mailbox> &, std::string &bound);
void unbind(const mailbox *);
std::shared_ptr<mailbox> find_name(std::string_view address);

}  // namespace hive::transport_inproc
