// Whether this router wants requests, for GET /health/ready. Written by the control thread, read by any.
#pragma once

#include <atomic>

namespace hive::gateway {

class readiness {
 public:
  enum class phase { starting, serving, draining };

  void enter(phase p) { phase_.store(p, std::memory_order_relaxed); }
  void storage(bool works) { storage_.store(works, std::memory_order_relaxed); }
  // Null = ready; else the reason, one of three words.
  const char *why_not() const {
    switch (phase_.load(std::memory_order_relaxed)) {
      case phase::starting: return "starting";
      case phase::draining: return "draining";
      case phase::serving: break;
    }
    return storage_.load(std::memory_order_relaxed) ? nullptr : "storage";
  }

 private:
  std::atomic<phase> phase_{phase::starting};
  std::atomic<bool> storage_{true};
};

}  // namespace hive::gateway
