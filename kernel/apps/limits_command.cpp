#include "apps/limits_command.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>

#include "base/number_text.hpp"
#include "tenancy/derived_limits.hpp"

namespace hive::apps {

namespace {

struct parameter {
  const char *name;
  uint64_t tenancy::model_abilities::*value;
};

constexpr parameter parameters[] = {
    {"admit_budget_tokens", &tenancy::model_abilities::admit_budget_tokens},
    {"max_model_len", &tenancy::model_abilities::max_model_len},
    {"max_input_tokens", &tenancy::model_abilities::max_input_tokens},
    {"input_tokens_per_minute", &tenancy::model_abilities::input_tokens_a_minute},
    {"output_tokens_per_minute", &tenancy::model_abilities::output_tokens_a_minute},
    {"sellable_requests", &tenancy::model_abilities::sellable_requests}};

int usage() {
  std::cerr << "usage: hivenet-router policy limits admit_budget_tokens=N max_model_len=N [max_input_tokens=N]\n"
               "         [input_tokens_per_minute=N] [output_tokens_per_minute=N] [sellable_requests=N]\n"
               "what a replica may hold, the longest context, the policy's longest prompt, what all keys together may use a minute,\n"
               "and the requests at once that may be sold\n";
  return 2;
}

}  // namespace

int limits_command(const std::vector<std::string> &words) {
  tenancy::model_abilities m;
  for (const std::string &word : words) {
    const size_t equals = std::min(word.find('='), word.size());
    const auto known = std::find_if(std::begin(parameters), std::end(parameters), [&](const parameter &p) { return word.substr(0, equals) == p.name; });
    if (known == std::end(parameters) || equals == word.size()) return usage();
    const char *begin = word.data() + equals + 1, *end = word.data() + word.size();
    const auto [stop, bad] = std::from_chars(begin, end, m.*known->value);
    constexpr uint64_t most = 1'000'000'000'000;
    if (bad != std::errc() || stop != end || m.*known->value > most) return usage();
  }
  if (m.admit_budget_tokens == 0 || m.max_model_len == 0) return usage();
  const tenancy::derived_limits d = tenancy::derive_limits(m);
  std::cout << "      max_occupancy_share: " << shortest(std::round(d.max_occupancy_share * 1000) / 1000) << "\n      quota:\n";
  const std::pair<const char *, uint64_t> quota[] = {{"requests_per_minute", d.requests_per_minute},
                                                     {"input_tokens_per_minute", d.input_tokens_per_minute},
                                                     {"output_tokens_per_minute", d.output_tokens_per_minute}};
  for (const auto &[name, value] : quota)
    if (value != 0) std::cout << "        " << name << ": " << value << "\n";
  std::cout << std::flush;
  return std::cout.good() ? 0 : 1;
}

}  // namespace hive::apps
