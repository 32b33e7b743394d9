#include <vector>

#include "hive/sdk/gate.hpp"

namespace {

using namespace hive::sdk;

// Keeps slow agents out. `srtt` compares the smoothed round-trip time; `srtt_upper` compares SRTT + k * RTTVAR, what a
// retransmission timer would wait for (RFC 6298 section 2.3, k = 4), so that an unsteady agent is as unwelcome as a slow one.
class srtt_gate {
 public:
  static constexpr std::string_view id = "srtt";
  static constexpr std::string_view summary = "latency of an agent as the router measures it";
  static constexpr std::array fields{
      field("srtt", "ms", "srtt_ms", "smoothed time to response headers", 0, 3'600'000),
      custom_field("srtt_upper", "ms", "SRTT + k x RTTVAR above a limit: {gt: MS, k: 4}"),
  };
  static constexpr uint32_t upper_bit = 1u << 1;

  explicit srtt_gate(const setup &s) : srtt_(s.host.column("srtt_ms")), rttvar_(s.host.column("rttvar_ms")) {
    for (const hive_rule *r : rules_of(s)) rules_.push_back(read(view(r->field), options(view(r->json))));
  }

  // A missing SRTT passes: nobody can say yet that the agent is slow. A missing RTTVAR counts as 0.
  void evaluate(const request &, const pool &p, std::span<uint32_t> verdicts) const {
    const double *const srtt = p.signal(srtt_).data();
    const double *const rttvar = p.signal(rttvar_).data();
    if (srtt == nullptr) return;
    for (const rule &r : rules_) {
      for (size_t i = 0; i < verdicts.size(); ++i) {
        const double spread = rttvar != nullptr && rttvar[i] == rttvar[i] ? rttvar[i] : 0;
        verdicts[i] |= srtt[i] + r.k * spread > r.limit_ms ? upper_bit : 0;
      }
    }
  }

 private:
  struct rule {
    double limit_ms, k;
  };

  static rule read(std::string_view field, const options &o) {
    if (field != "srtt_upper") throw failure(HIVE_E_CONFIG, std::string(field) + ": the gate srtt has no such custom rule");
    const auto wrong = [](const std::string &what) {
      return failure(HIVE_E_CONFIG, "srtt_upper: " + what + "; write {gt: MS} or {gt: MS, k: FACTOR}, e.g. {gt: 500, k: 4}");
    };
    if (o.json().empty() || o.json().front() != '{') throw wrong("must be an object");
    for (const std::string &name : o.names()) {
      if (name != "gt" && name != "k") throw wrong("unknown key \"" + name + "\"");
    }
    const auto limit = o.find("gt");
    if (!limit) throw wrong("gt is required");
    const auto ms = limit->as_number();
    if (!ms || !(*ms >= 0)) throw wrong("gt must be a number of milliseconds, 0 or more");
    double k = 4;
    if (const auto given = o.find("k")) {
      const auto number = given->as_number();
      if (!number || !(*number >= 0 && *number <= 100)) throw wrong("k must be a number from 0 to 100");
      k = *number;
    }
    return {*ms, k};
  }

  hive_column srtt_, rttvar_;
  std::vector<rule> rules_;
};

}  // namespace

HIVE_PLUGIN("gate_srtt", "1.0.0", "hivenet", "Apache-2.0", hive::sdk::gate<srtt_gate>)
