// One live instance of a component with the host table it was given. Made and destroyed on [control]; called as the thread
// tags of its kind say. The typed tables are null for another kind.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/guard.hpp"
#include "plugins/host_services.hpp"
#include "plugins/registry.hpp"

namespace hive::plugins {

struct instance_options {
  std::string name;   // in logs and the admin API, e.g. "edge/llama-3"
  std::string where;  // who uses it, for the admin API: "policy step edge of main, pool llama-3"
  std::string json;   // not yet validated; empty = {}
  std::vector<std::pair<std::string, std::string>> rules;  // gates: custom rules of the step, {field, json}
};

// A table of calls and the first argument of each.
template <class Table>
struct guarded_calls {
  const Table *table;
  void *self;
};

class instance {
 public:
  // Validates, fills defaults, creates. The status carries the path inside the configuration, or the plugin's words.
  static result<std::unique_ptr<instance>> make(component_registry &, const component &, instance_options, host_services &);
  ~instance();
  instance(const instance &) = delete;
  instance &operator=(const instance &) = delete;

  void *self() const { return self_; }
  const component &what() const { return what_; }
  const std::string &name() const { return options_.name; }
  const std::string &where() const { return options_.where; }
  const std::string &json() const { return options_.json; }  // as the plugin got it
  const std::vector<hive_column> &columns() const { return columns_; }  // it asked for in create

  const hive_strategy_vtable *strategy() const { return table<hive_strategy_vtable>(HIVE_KIND_STRATEGY); }
  const hive_gate_vtable *gate() const { return table<hive_gate_vtable>(HIVE_KIND_GATE); }
  const hive_storage_vtable *storage() const { return table<hive_storage_vtable>(HIVE_KIND_STORAGE); }
  const hive_transport_vtable *transport() const { return table<hive_transport_vtable>(HIVE_KIND_TRANSPORT); }
  const hive_engine_vtable *engine() const { return table<hive_engine_vtable>(HIVE_KIND_ENGINE); }

  // The same with a call_frame around each call, for whoever keeps no frame of their own. Failures are counted and open no circuit:
  // nothing could stand in. Kernel code that a transport calls back is not taken for the plugin. Requires: of that kind.
  guarded_calls<hive_storage_vtable> guarded_storage();
  guarded_calls<hive_transport_vtable> guarded_transport();
  guarded_calls<hive_engine_vtable> guarded_engine();

  // Transport: where host.request_pump goes. Set before start, on the loop that owns it.
  void on_request_pump(void (*f)(void *), void *ctx) { pump_ = f, pump_ctx_ = ctx; }

  // May it be called now? False while its circuit is open: use the fallback.
  bool usable(uint64_t now_ns) { return circuit_.closed(now_ns); }
  const plugins::circuit &breaker() const { return circuit_; }
  const call_stats &stats() const { return stats_; }

 private:
  friend class call_frame;
  friend class call;
  instance(component_registry &, const component &, instance_options, host_services &);
  template <class T>
  const T *table(uint32_t kind) const {
    return what_.kind() == kind ? static_cast<const T *>(what_.table()->vtable) : nullptr;
  }
  struct thunks;
  struct guarded;
  bool may_log(uint64_t now_ns, uint64_t &dropped);

  component_registry &registry_;
  const component &what_;
  instance_options options_;
  host_services &services_;
  std::string component_name_;  // kind/id
  hive_host host_;
  std::vector<hive_column> columns_;
  void *self_ = nullptr;
  bool creating_ = false;
  std::shared_ptr<bool> alive_;  // read and cleared on [control] only
  void (*pump_)(void *) = nullptr;
  void *pump_ctx_ = nullptr;
  hive_transport_events events_{};                        // what a guarded transport raises ...
  const hive_transport_events *kernel_events_ = nullptr;  // ... and where it goes
  crash_marker marker_;
  plugins::circuit circuit_;
  call_stats stats_;
  std::mutex log_mutex_;          // guards the three below
  static constexpr uint64_t log_burst = 50;
  uint64_t log_tokens_ = log_burst;
  uint64_t log_refill_ns_ = 0;
  uint64_t log_dropped_ = 0;
};

// Stands on the stack around one call into an instance: its name for the line a crash leaves, the count, the time of one call
// in 64. No clock is read for the others.
class call_frame {
 public:
  enum class clock { sampled, never };
  explicit call_frame(instance &i, clock c = clock::sampled) : i_(i), outer_(std::exchange(on_stack, &i.marker_)) {
    if (call_stats::timed(i.stats_.begin()) && c == clock::sampled) start_ = i.services_.now();
  }
  ~call_frame() { finish(); }
  call_frame(const call_frame &) = delete;
  call_frame &operator=(const call_frame &) = delete;

 protected:
  void finish() {
    if (done_) return;
    done_ = true;
    on_stack = outer_;
    if (start_ != 0) i_.stats_.took(i_.services_.now() - start_);
  }
  instance &i_;

 private:
  const crash_marker *outer_;
  uint64_t start_ = 0;
  bool done_ = false;
};

// The same for a call that has a fallback:
//   call c(i);  c.result(i.strategy()->select(i.self(), ...));
class call : private call_frame {
 public:
  explicit call(instance &i) : call_frame(i) {}

  // Counts a failure code and feeds the circuit; answers the same status.
  hive_status result(hive_status s) {
    finish();
    if (s >= 0) {
      i_.circuit_.good();
    } else {
      failed("status " + std::to_string(s), false);
    }
    return s;
  }
  // An answer that breaks the rules (an index out of range): as bad as a failure.
  void wrong_answer(std::string_view why) { failed(why, true); }

 private:
  void failed(std::string_view why, bool wrong);
};

}  // namespace hive::plugins
