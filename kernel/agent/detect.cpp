#include "agent/detect.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <utility>

#include "plugins/text.hpp"

namespace hive::agent {

namespace {

constexpr size_t most_probe_bytes = 4 << 20;
constexpr uint64_t page_limit_ns = 2 * ns_per_s;
constexpr uint64_t absent_period_ns = ns_per_s / 5;  // while nothing answers
constexpr uint64_t unknown_period_ns = ns_per_s;     // while what answers says too little

std::string key_of(const hive_page &p) { return plugins::text_of(p.method) + " " + plugins::text_of(p.path); }

bool wanted(const hive_page &p) { return p.role == HIVE_PAGE_HEALTH || p.role == HIVE_PAGE_MODELS || p.role == HIVE_PAGE_METRICS; }

std::string letters(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
    else if (c >= 'A' && c <= 'Z') out += static_cast<char>(c + 32);
  }
  return out;
}

// The Server header without its version: "llama.cpp/b1234 (x)" -> llamacpp.
std::string product_of(const std::string &server) { return letters(std::string_view(server).substr(0, server.find_first_of("/ "))); }

struct listed_models {
  size_t count = 0;
  std::string owner;
};

listed_models models_of(const page_answer &a) {
  namespace json = boost::json;
  listed_models out;
  boost::system::error_code error;
  const json::value page = json::parse(a.body, error);
  const json::object *top = error ? nullptr : page.if_object();
  const json::value *data = top == nullptr ? nullptr : top->if_contains("data");
  const json::array *list = data == nullptr ? nullptr : data->if_array();
  if (a.status != 200 || list == nullptr) return out;
  for (const json::value &each : *list) {
    const json::object *model = each.if_object();
    const json::value *id = model == nullptr ? nullptr : model->if_contains("id");
    if (id == nullptr || !id->is_string()) continue;
    ++out.count;
    if (const json::value *owner = model->if_contains("owned_by"); owner != nullptr && owner->is_string() && out.owner.empty())
      out.owner = letters(owner->get_string());
  }
  return out;
}

const page_answer *answer_of(const engine_codec &codec, const page_answers &answers, uint32_t role) {
  const int page = codec.page_of(role);
  return page < 0 ? nullptr : answers.find(codec.page(page));
}

// Values that the adapter reads on its metrics page.
size_t series_of(const engine_codec &codec, const page_answers &answers) {
  const page_answer *a = answer_of(codec, answers, HIVE_PAGE_METRICS);
  if (a == nullptr || a->status != 200) return 0;
  page_news news;
  if (!codec.parse(codec.page_of(HIVE_PAGE_METRICS), a->status, a->body, news)) return 0;
  return news.gauges.size() + news.counters.size() + news.labelled.size() + news.histograms.size();
}

std::string names_of(const std::vector<engine_candidate> &candidates) {
  std::string out;
  for (const engine_candidate &c : candidates) out += (out.empty() ? "" : ", ") + c.id;
  return out.empty() ? "none" : out;
}

}  // namespace

page_answer &page_answers::at(const hive_page &page) {
  const std::string key = key_of(page);
  for (auto &[known, answer] : all_)
    if (known == key) return answer;
  return all_.emplace_back(key, page_answer{}).second;
}

const page_answer *page_answers::find(const hive_page &page) const {
  const std::string key = key_of(page);
  for (const auto &[known, answer] : all_)
    if (known == key) return &answer;
  return nullptr;
}

detection judge_engine(const std::vector<engine_candidate> &candidates, const page_answers &answers, bool model_named) {
  const engine_candidate *best = nullptr, *general = nullptr;
  size_t most = 0;
  for (const engine_candidate &c : candidates) {
    if (c.id == general_engine) {
      general = &c;
      continue;
    }
    if (const size_t n = series_of(*c.codec, answers); n > most) {
      most = n;
      best = &c;
    }
  }
  if (best != nullptr) return {best->id, "its metrics page holds " + std::to_string(most) + " values of that engine"};

  listed_models listed;
  bool answered = false, well = false;
  uint32_t last_status = 0;
  std::string trouble;
  for (const engine_candidate &c : candidates) {
    for (const uint32_t role : {HIVE_PAGE_MODELS, HIVE_PAGE_HEALTH, HIVE_PAGE_METRICS}) {
      const page_answer *a = answer_of(*c.codec, answers, role);
      if (a == nullptr) continue;
      if (a->status == 0) {
        if (trouble.empty()) trouble = a->trouble;
        continue;
      }
      answered = true;
      if (role == HIVE_PAGE_METRICS) continue;
      if (role == HIVE_PAGE_MODELS || last_status == 0) last_status = a->status;
      well = well || a->status == 200;
      if (c.id != general_engine && product_of(a->server) == letters(c.id)) return {c.id, "its Server header says " + a->server};
      if (role != HIVE_PAGE_MODELS) continue;
      if (const listed_models found = models_of(*a); found.count > listed.count) listed = found;
    }
  }
  for (const engine_candidate &c : candidates)
    if (c.id != general_engine && !listed.owner.empty() && listed.owner == letters(c.id)) return {c.id, "its models are owned_by " + listed.owner};

  if (!answered) return {{}, trouble.empty() ? "no answer" : trouble};
  if (listed.count == 0 && !(model_named && well))
    return {{}, "it answers " + std::to_string(last_status) + " and says neither what it is nor which models it has"};
  if (general != nullptr) return {general->id, "it lists models like an OpenAI server"};
  return {{}, "it lists models like an OpenAI server, and the adapter for those, " + std::string(general_engine) +
                  " (plugin engine_openai), is not loaded; name its engine if it is one of: " + names_of(candidates)};
}

engine_detector::engine_detector(loop &l, http::origin origin, std::vector<engine_candidate> candidates, bool model_named,
                                 std::function<void(const detection &)> found, std::function<void(const std::string &)> trouble)
    : loop_(l), candidates_(std::move(candidates)), model_named_(model_named), found_(std::move(found)), trouble_(std::move(trouble)),
      client_(l, std::move(origin), http::client_options{}), timer_([this] { ask(); }) {}

engine_detector::~engine_detector() = default;

void engine_detector::start() { loop_.post([this] { ask(); }); }

void engine_detector::ask() {
  answers_ = {};
  fetches_.clear();
  std::vector<const hive_page *> pages;
  for (const engine_candidate &c : candidates_) {
    for (uint32_t i = 0; i < c.codec->description().page_count; ++i) {
      const hive_page &page = c.codec->page(static_cast<int>(i));
      const bool again = std::any_of(pages.begin(), pages.end(), [&](const hive_page *p) { return key_of(*p) == key_of(page); });
      if (wanted(page) && !again) pages.push_back(&page);
    }
  }
  open_ = pages.size();
  for (const hive_page *page : pages) {
    answers_.at(*page);
    fetches_.push_back(std::make_unique<page_fetch>(client_, *page, page_limit_ns, most_probe_bytes, [this, page](page_answer answer) {
      answers_.at(*page) = std::move(answer);
      answered();
    }));
  }
  if (open_ == 0) answered();
}

// The last answer of a round decides. Not from inside that call: whoever hears of it may destroy us.
void engine_detector::answered() {
  if (open_ > 0 && --open_ > 0) return;
  const detection d = judge_engine(candidates_, answers_, model_named_);
  if (!d.engine.empty()) return loop_.post([found = found_, d] { found(d); });
  if (d.reason != told_) trouble_(told_ = d.reason);
  const bool silent = std::none_of(candidates_.begin(), candidates_.end(), [&](const engine_candidate &c) {
    for (const uint32_t role : {HIVE_PAGE_HEALTH, HIVE_PAGE_MODELS, HIVE_PAGE_METRICS})
      if (const page_answer *a = answer_of(*c.codec, answers_, role); a != nullptr && a->status != 0) return true;
    return false;
  });
  loop_.arm_in(timer_, silent ? absent_period_ns : unknown_period_ns);
}

}  // namespace hive::agent
