#include "http/event_json.hpp"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <random>
#include <string>
#include <vector>

#include "http/sse_scanner.hpp"

namespace hive::http {
namespace {

namespace dom = simdjson::dom;

// The reference: written for being read, with no thought for its cost. A whole stream at once, a fresh parser an event.
class slow_reader {
 public:
  static stream_facts read(std::string wire) {
    slow_reader r;
    if (wire.starts_with("\xEF\xBB\xBF")) wire.erase(0, 3);
    std::string line;
    for (size_t i = 0; i < wire.size(); ++i) {
      if (wire[i] != '\r' && wire[i] != '\n') {
        line += wire[i];
        continue;
      }
      if (wire[i] == '\r' && i + 1 < wire.size() && wire[i + 1] == '\n') ++i;
      r.line(line);
      line.clear();
    }
    if (!line.empty()) r.line(line);
    return r.facts_;
  }

  static stream_facts read_event(const std::string &json) {
    slow_reader r;
    r.data(json);
    r.facts_.events = 0;
    return r.facts_;
  }

 private:
  void line(const std::string &text) {
    if (text.empty()) named_error_ = false;
    const size_t colon = text.find(':');
    const std::string name = text.substr(0, colon);
    std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
    if (value.starts_with(" ")) value.erase(0, 1);
    if (name == "event" && value == "error") named_error_ = facts_.error = true;
    if (name == "error") report(value);
    if (name == "data") data(value);
  }

  void data(std::string text) {
    ++facts_.events;
    while (text.ends_with(" ") || text.ends_with("\t")) text.pop_back();
    if (text == "[DONE]") {
      facts_.done = true;
      return;
    }
    bool failed = named_error_;
    dom::parser parser;
    dom::element e;
    if (!text.empty() && parser.parse(text).get(e) == simdjson::SUCCESS && e.is_object()) failed = event(e) || failed;
    if (failed) report(text);
  }

  void report(const std::string &text) {
    facts_.error = true;
    if (facts_.error_text.empty()) facts_.error_text = text.substr(0, 4096);
  }

  static std::string string_of(dom::element e, const char *key) {
    const auto found = e[key];
    return found.error() == simdjson::SUCCESS && found.is_string() ? std::string(std::string_view(found)) : "";
  }
  static bool object_of(dom::element e, const char *key, dom::element &out) { return e[key].get(out) == simdjson::SUCCESS && out.is_object(); }

  void content(const std::string &text) {
    if (text.empty()) return;
    facts_.content = true;
    facts_.delta_bytes += text.size();
    ++facts_.delta_pieces;
  }

  void usage(dom::element e) {
    dom::element u;
    if (!object_of(e, "usage", u)) return;
    const auto count = [&](const char *key, uint64_t &n) {
      uint64_t found = 0;
      if (u[key].get_uint64().get(found) != simdjson::SUCCESS) return false;
      n = std::min<uint64_t>(found, 1ull << 40);
      return true;
    };
    uint64_t prompt = 0, completion = 0, read = 0, made = 0;
    const bool has_prompt = count("prompt_tokens", prompt) || count("input_tokens", prompt);
    const bool has_completion = count("completion_tokens", completion) || count("output_tokens", completion);
    count("cache_read_input_tokens", read);
    count("cache_creation_input_tokens", made);
    if (!has_prompt && !has_completion && !count("total_tokens", prompt)) return;
    facts_.usage.present = true;
    if (prompt + read + made > 0) facts_.usage.prompt = prompt + read + made;
    facts_.usage.completion = std::max(facts_.usage.completion, completion);
    if (uint64_t cached = 0; count("cache_read_input_tokens", cached)) facts_.usage.cached = cached;
    for (const char *key : {"prompt_tokens_details", "input_tokens_details"}) {
      dom::element details;
      uint64_t n = 0;
      if (!object_of(u, key, details) || details["cached_tokens"].get_uint64().get(n) != simdjson::SUCCESS) continue;
      facts_.usage.cached = std::min<uint64_t>(n, 1ull << 40);
    }
  }

  void choice(dom::element c) {
    content(string_of(c, "text"));
    if (!string_of(c, "finish_reason").empty()) facts_.finished = true;
    dom::element d, f, calls;
    if (!object_of(c, "delta", d)) return;
    for (const char *key : {"content", "reasoning", "reasoning_content", "refusal"}) content(string_of(d, key));
    if (d["tool_calls"].get(calls) == simdjson::SUCCESS && calls.is_array()) {
      for (dom::element call : dom::array(calls)) {
        facts_.content = true;
        if (call.is_object() && object_of(call, "function", f)) content(string_of(f, "arguments"));
      }
    }
    if (object_of(d, "function_call", f)) {
      facts_.content = true;
      content(string_of(f, "arguments"));
    }
  }

  bool event(dom::element e) {
    dom::element part;
    if (e["choices"].get(part) == simdjson::SUCCESS && part.is_array()) {
      for (dom::element c : dom::array(part))
        if (c.is_object()) choice(c);
    }
    const std::string type = string_of(e, "type");
    if (!type.empty()) {
      for (const char *end : {"message_stop", "response.completed", "response.incomplete"})
        if (type == end) facts_.done = facts_.finished = true;
      for (const char *key : {"message", "response"})
        if (object_of(e, key, part)) usage(part);
      if (object_of(e, "content_block", part)) {
        if (string_of(part, "type") == "tool_use") facts_.content = true;
        content(string_of(part, "text"));
      }
      if (object_of(e, "item", part) && string_of(part, "type").ends_with("_call")) facts_.content = true;
      if (object_of(e, "delta", part)) {
        for (const char *key : {"text", "thinking", "partial_json"}) content(string_of(part, key));
        if (!string_of(part, "stop_reason").empty()) facts_.finished = true;
      } else if (type.ends_with(".delta")) {
        content(string_of(e, "delta"));
      }
    }
    usage(e);
    const bool error = e["error"].get(part) == simdjson::SUCCESS && !part.is_null();
    return error || type == "error" || type == "response.failed" || string_of(e, "object") == "error";
  }

  stream_facts facts_;
  bool named_error_ = false;
};

scan_result scan_event(std::string_view json, stream_facts &facts) {
  lone_text lone;
  return http::scan_event(json, facts, lone);
}

std::string shown(const stream_facts &f) {
  return std::string("content ") + (f.content ? "1" : "0") + " error " + (f.error ? "1" : "0") + " done " + (f.done ? "1" : "0") + " finished " +
         (f.finished ? "1" : "0") + " unread " + (f.unread ? "1" : "0") + " usage " + (f.usage.present ? "1 " : "0 ") +
         std::to_string(f.usage.prompt) + "/" + std::to_string(f.usage.completion) + " cached " +
         (f.usage.cached ? std::to_string(*f.usage.cached) : "?") + " delta " + std::to_string(f.delta_bytes) + " in " +
         std::to_string(f.delta_pieces) + " events " + std::to_string(f.events) + " error_text " + f.error_text;
}

// Text of its exact size, so that ASan sees a read beyond.
class exact {
 public:
  explicit exact(std::string_view s) : bytes_(s.begin(), s.end()) {}
  operator std::string_view() const { return {bytes_.data(), bytes_.size()}; }

 private:
  const std::vector<char> bytes_;
};

// What engines send most: here the parser would be a waste, and the scan must answer.
const std::vector<std::string> plain_events = {
    R"({"id":"c-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"tok "},"finish_reason":null}]})",
    R"({"choices":[{"finish_reason":null,"index":0,"delta":{"content":" l\u00fc\n\"x\\"}}],)"
    R"("created":1,"id":"x","model":"a/b","system_fingerprint":"b1-2","object":"chat.completion.chunk"})",
    R"({"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,)"
    R"("finish_reason":null,"stop_reason":null,"token_ids":null}],"usage":null})",
    R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],)"
    R"("usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}})",
    R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}}]})",
    R"({"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"logprobs":{"content":[{"token":"a","logprob":-0.25,"bytes":[97],"top_logprobs":[]}]}}]})",
    R"({"id":"cmpl","object":"text_completion","choices":[{"text":"grüß 😀","index":0,"finish_reason":"length"}]})",
    R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}})",
    R"({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}})",
    R"({"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}})",
    R"({"type":"response.output_text.delta","sequence_number":12,"item_id":"m","output_index":0,"content_index":0,"delta":"x","logprobs":[]})",
    R"({"type":"ping"})", " { \"choices\" : [ { \"delta\" : { \"content\" : \"x\" } } ] , \"error\" : null } "};

// Everything else: the parser's.
const std::vector<std::string> odd_events = {
    R"({"error":{"message":"m"}})", R"({"error":"m"})", R"({"error":false})", R"({"error":[]})", R"({"object":"error","message":"m"})",
    R"({"type":"error","error":{"type":"overloaded_error"}})",
    R"({"type":"response.failed","response":{"error":{"code":"x"},"usage":{"input_tokens":3,"output_tokens":1}}})",
    R"({"type":"message_start","message":{"usage":{"input_tokens":1,"cache_read_input_tokens":29,"cache_creation_input_tokens":2,"output_tokens":0}}})",
    R"({"type":"message_stop"})", R"({"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f","input":{}}})",
    R"({"type":"content_block_start","content_block":{"type":"text","text":"now"}})", R"({"type":"response.output_item.added","item":{"type":"message"}})",
    R"({"type":"response.output_item.added","item":{"type":"function_call","arguments":""}})",
    R"({"type":"response.completed","response":{"usage":{"input_tokens":30,"output_tokens":11,"total_tokens":41}}})",
    R"({"choices":[{"delta":{"content":"\ud83d\ude00"}}]})", R"({"choices":[{"delta":{"content":"\ud83d"}}]})",
    R"({"choices":[{"delta":{"content":"a"}}],"choices":[]})", R"({"choices":[],"choices":[{"text":"x"}]})",
    R"({"choices":[{"delta":{"content":"a","content":"bcd"}}]})", R"({"usage":{"prompt_tokens":1,"prompt_tokens":2}})",
    R"({"\u0065rror":"m"})", R"({"ch\u006fices":[{"text":"x"}]})", R"({"type":"mess\u0061ge_stop"})", R"({"object":"\u0065rror"})",
    R"({"choices":[{"text":"x"}],"n":1e5})", R"({"choices":[{"text":"x"}],"n":123456789012345678901234})",
    R"({"usage":{"prompt_tokens":1e2,"completion_tokens":-3,"total_tokens":4.5}})", R"({"usage":{"prompt_tokens":18446744073709551615}})",
    R"({"choices":[{"text":"x"}]} x)", R"({"choices":[{"text":"x"}])", R"({"choices":[{"text":"x"},]})", R"({"choices":[{"text":"x"}],})",
    R"({"choices":[{"text":"x"}],"a":nul})", R"({"choices":[{"text":"x"}],"a":nullx})", R"({"choices":[{"text":"x"}],"a":01})",
    R"({"choices":[{"text":"x"}],"a":1.})", R"({"choices":[{"text":"x"}],"a":-})", R"({"choices":[{"text":"\q"}]})",
    R"({"choices":[{"text":"\u12"}]})", R"({"choices":[{"text":"x}]})", "{\"choices\":[{\"text\":\"\xff\"}]}", "{\"choices\":[{\"text\":\"\xe2\x82\"}]}",
    "{\"choices\":[{\"text\":\"a\tb\"}]}", std::string("{\"choices\":[{\"text\":\"a\0b\"}]}", 28), "{\xc3\xbc:1}", "[]", "7", "\"x\"", "{", "{}x", "x", "nul"};

// Read, and without an effect.
const std::vector<std::string> quiet_events = {
    "{}", R"({"choices":{}})", R"({"choices":["text",7,null,[{"text":"x"}]]})", R"({"choices":[{"delta":"content"}]})", R"({"delta":{"text":"x"}})",
    R"({"delta":"x"})", R"({"text":"x","content":"y"})", R"({"x":{"choices":[{"text":"x"}],"error":1,"usage":{"prompt_tokens":1}}})",
    R"({"id":"\"error\":1,\"choices\":[{\"text\":\"x\"}]"})", R"({"type":7,"delta":{"text":"x"}})", R"({"type":"","delta":{"text":"x"}})",
    R"({"usage":[{"prompt_tokens":1}]})", R"({"usage":{"x":{"prompt_tokens":1}}})", R"({"choices":[{"delta":{"tool_calls":[],"function_call":null}}]})",
    R"({"choices":[{"finish_reason":""}]})", R"({"message":{"usage":{"prompt_tokens":1}}})"};

TEST(event_json, the_scan_answers_for_what_engines_send_most) {
  for (const auto *set : {&plain_events, &quiet_events}) {
    for (const std::string &json : *set) {
      stream_facts facts;
      EXPECT_EQ(scan_event(exact(json), facts), scan_result::read) << json;
      EXPECT_EQ(shown(facts), shown(slow_reader::read_event(json))) << json;
      if (set == &quiet_events) { EXPECT_EQ(shown(facts), shown({})) << json; }
    }
  }
}

TEST(event_json, the_scan_leaves_alone_what_it_cannot_judge) {
  for (const std::string &json : odd_events) {
    stream_facts facts;
    EXPECT_EQ(scan_event(exact(json), facts), scan_result::not_read) << json;
    EXPECT_EQ(shown(facts), shown({})) << json;
  }
}

TEST(event_json, nesting_costs_no_stack) {
  for (const char *open : {"[", "{\"a\":"}) {
    std::string json = "{\"a\":";
    for (int i = 0; i < 100'000; ++i) json += open;
    stream_facts facts;
    EXPECT_EQ(scan_event(exact(json), facts), scan_result::not_read);
    EXPECT_FALSE(parse_event(exact(json), facts));
  }
}

std::vector<std::string> all_events() {
  std::vector<std::string> all;
  for (const auto *set : {&plain_events, &odd_events, &quiet_events}) all.insert(all.end(), set->begin(), set->end());
  return all;
}

stream_facts scanned(std::string_view wire, size_t cut, size_t second) {
  sse_scanner s;
  s.feed(exact(wire.substr(0, cut)));
  s.feed(exact(wire.substr(cut, second - cut)));
  s.feed(exact(wire.substr(second)));
  s.end();
  return s.facts();
}

TEST(event_json, a_stream_tells_what_a_slow_reader_reads_at_every_split_position) {
  for (const std::string &json : all_events()) {
    if (json.find('\r') != std::string::npos || json.find('\n') != std::string::npos) continue;
    for (const char *line_end : {"\n", "\r", "\r\n"}) {
      const std::string wire = std::string("data: ") + json + line_end + line_end + "data:[DONE]";
      const std::string expected = shown(slow_reader::read(wire));
      for (size_t cut = 0; cut <= wire.size(); ++cut)
        ASSERT_EQ(shown(scanned(wire, cut, cut)), expected) << wire << " cut at " << cut;
    }
  }
}

TEST(event_json, events_of_one_shape_are_told_apart_from_those_that_only_look_like_it) {
  const std::string front = R"({"id":"c","choices":[{"index":0,"delta":{"content":")", back = R"("},"finish_reason":null}]})";
  const std::vector<std::string> between = {
      "tok ", "", "x", "a longer text than the first one", "\\n", "\\", "\\\\", "\\\"", R"(","refusal":"y)", R"(","content":"z)",
      R"("},"error":{"x":")", "ü", "\xff", "\x01", "\xe2\x82", "😀", "\\ud83d", R"("}}],"usage":{"prompt_tokens":3},"x":[{"y":{"z":")",
      "\"", "data: [DONE]"};
  for (const std::string &first : between) {
    std::string wire = "data: " + front + first + back + "\n\nevent: x\n";
    for (const std::string &next : between) wire += "data: " + front + next + back + "\n\n";
    wire += "data: " + front + "\n\ndata: " + back + "\n\ndata: " + front + back.substr(1) + "\n\nevent: error\ndata: " + front + "x" + back + "\n\n";
    EXPECT_EQ(shown(scanned(wire, 0, 0)), shown(slow_reader::read(wire))) << first;
  }
  for (const std::string &shape : plain_events) {
    std::string wire;
    for (int i = 0; i < 3; ++i) wire += "data: " + shape + "\n\n";
    EXPECT_EQ(shown(scanned(wire, 0, 0)), shown(slow_reader::read(wire))) << shape;
  }
}

// JSON and what almost is: known keys in right and wrong places, any order, repeated, escaped, spaced, now and then a byte off.
class generator {
 public:
  explicit generator(unsigned seed) : random_(seed) {}
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

  std::string event() {
    std::string json = below(4) == 0 ? all_[below(static_cast<unsigned>(all_.size()))] : object(0);
    if (below(6) == 0 && !json.empty()) {
      const size_t at = below(static_cast<unsigned>(json.size()));
      switch (below(3)) {
        case 0: json[at] = static_cast<char>(random_()); break;
        case 1: json.erase(at, 1); break;
        default: json.insert(at, 1, "\"{}[],:\\ 0ntf-.e\x80"[below(17)]);
      }
    }
    std::erase_if(json, [](char c) { return c == '\r' || c == '\n'; });
    return json;
  }

 private:
  std::string space() { return below(8) == 0 ? below(2) == 0 ? " " : "\t" : ""; }

  std::string key() {
    static const std::vector<std::string> keys = {
        "choices", "choices", "delta", "delta", "content", "text", "error", "usage", "type", "object", "finish_reason", "reasoning",
        "reasoning_content", "refusal", "tool_calls", "function", "function_call", "arguments", "message", "response", "content_block", "item",
        "thinking", "partial_json", "stop_reason", "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens",
        "cache_read_input_tokens", "cache_creation_input_tokens", "prompt_tokens_details", "input_tokens_details", "cached_tokens", "meta", "id", "index", ""};
    std::string k = keys[below(static_cast<unsigned>(keys.size()))];
    if (below(40) == 0 && !k.empty()) k = "\\u00" + std::string(k[0] < 'p' ? "6" : "7") + "0123456789abcdef"[k[0] & 15] + k.substr(1);
    return "\"" + k + "\"";
  }

  std::string string() {
    static const std::vector<std::string> strings = {
        "", "x", "token ", "stop", "error", "message_stop", "response.output_text.delta", "content_block_delta", "response.completed", "tool_use",
        "function_call", "response.failed", "message_delta", "ü", "😀", "a\\nb", "\\u00fc\\u20ac", "\\ud83d\\ude00", "\\ud83d", "\\udc00x", "\\\\", "\\\"",
        "{\\\"error\\\":1}", "a long text of more than sixteen bytes, with \\\" in it", "\\x", "\\u00g0", "\x01"};
    const size_t most = below(20) == 0 ? strings.size() : strings.size() - 3;
    return "\"" + strings[below(static_cast<unsigned>(most))] + "\"";
  }

  std::string value(int depth) {
    switch (below(depth > 5 ? 4 : 9)) {
      case 0: case 1: return string();
      case 2: {
        static const std::vector<std::string> numbers = {"0", "1", "42", "-1", "0.5", "-0.25", "1e2", "1099511627777", "123456789012345678",
                                                         "1234567890123456789", "18446744073709551616", "01", "1.", "0.1234567890123456789"};
        return numbers[below(below(10) == 0 ? 14 : 9)];
      }
      case 3: return std::vector<std::string>{"null", "null", "true", "false"}[below(4)];
      case 4: case 5: {
        std::string out = "[" + space();
        for (unsigned n = below(3), i = 0; i < n; ++i) out += (i > 0 ? "," : "") + value(depth + 1) + space();
        return out + "]";
      }
      default: return object(depth + 1);
    }
  }

  // Of the kind that the key has in real events.
  std::string usual_value(const std::string &name, int depth) {
    if (depth > 5) return value(depth);
    if (name == "\"choices\"" || name == "\"tool_calls\"") return "[" + object(depth + 1) + "]";
    if (name == "\"delta\"" || name == "\"usage\"" || name == "\"prompt_tokens_details\"" || name == "\"function\"") return object(depth + 1);
    if (name == "\"error\"") return "null";
    return name.find("tokens") == std::string::npos ? string() : std::to_string(below(1000));
  }

  std::string object(int depth) {
    std::string out = "{" + space();
    for (unsigned n = below(6), i = 0; i < n; ++i) {
      const std::string name = key();
      out += (i > 0 ? "," + space() : "") + name + space() + ":" + space() + (below(4) == 0 ? value(depth) : usual_value(name, depth)) + space();
    }
    return out + "}";
  }

  std::mt19937 random_;
  const std::vector<std::string> all_ = all_events();
};

TEST(event_json, generated_events_tell_what_a_slow_reader_reads) {
  generator g(7);
  unsigned quick = 0, telling = 0;
  for (int i = 0; i < 40'000; ++i) {
    const std::string json = g.event();
    const std::string expected = shown(slow_reader::read_event(json));
    stream_facts facts;
    const scan_result found = scan_event(exact(json), facts);
    if (found != scan_result::not_read) {
      ++quick;
      if (shown(facts) != shown({})) ++telling;
      ASSERT_EQ(shown(facts), expected) << json;
    }
    stream_facts parsed;
    const bool failed = parse_event(exact(json), parsed);
    ASSERT_EQ(failed, slow_reader::read_event(json).error) << json;
    if (!failed) { ASSERT_EQ(shown(parsed), json == "[DONE]" ? shown({}) : expected) << json; }
  }
  EXPECT_GT(quick, 10'000u);
  EXPECT_GT(telling, 1'000u);
}

TEST(event_json, generated_streams_tell_what_a_slow_reader_reads_however_cut) {
  generator g(11);
  const std::vector<std::string> around = {"event: error", "event: x", ": comment", "error: y", "id: 1", "data", "data: [DONE] ", "", "", ""};
  for (int i = 0; i < 1'500; ++i) {
    const std::string line_end = std::vector<std::string>{"\n", "\r", "\r\n"}[g.below(3)];
    std::string wire = g.below(5) == 0 ? "\xEF\xBB\xBF" : "";
    for (unsigned n = g.below(5); n > 0; --n) {
      if (g.below(3) == 0) wire += around[g.below(10)] + line_end;
      wire += (g.below(2) == 0 ? "data: " : "data:") + g.event() + line_end + (g.below(4) == 0 ? "" : line_end);
    }
    const std::string expected = shown(slow_reader::read(wire));
    for (int cut = 0; cut < 20; ++cut) {
      const size_t a = g.below(static_cast<unsigned>(wire.size() + 1)), b = a + g.below(static_cast<unsigned>(wire.size() - a + 1));
      ASSERT_EQ(shown(scanned(wire, a, b)), expected) << wire << " cut at " << a << " and " << b;
    }
  }
}

TEST(event_json, usage_of_every_kind_of_answer) {
  const struct {
    std::string json;
    bool present;
    uint64_t prompt, completion;
  } cases[] = {
      {R"({"object":"chat.completion","choices":[{"message":{"content":"\"usage\":{}"}}],"usage":{"prompt_tokens":3,"completion_tokens":4}})", true, 3, 4},
      {R"({"object":"text_completion","choices":[{"text":"x"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}})", true, 3, 4},
      {R"({"object":"list","data":[{"embedding":[0.1,-2e-5]}],"usage":{"prompt_tokens":6,"total_tokens":6}})", true, 6, 0},
      {R"({"results":[{"index":0,"relevance_score":0.9}],"usage":{"total_tokens":12}})", true, 12, 0},
      {R"({"results":[],"meta":{"billed_units":{"search_units":1},"tokens":{"input_tokens":9,"output_tokens":2}}})", true, 9, 2},
      {R"({"results":[],"meta":{"billed_units":{"input_tokens":5}}})", true, 5, 0},
      {R"({"results":[],"meta":{"billed_units":{"search_units":1}}})", false, 0, 0},
      {R"({"meta":{"tokens":{"input_tokens":9}},"usage":{"total_tokens":1}})", true, 1, 0},
      {R"({"type":"message","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":2,"cache_read_input_tokens":8,"output_tokens":5}})", true, 10, 5},
      {R"({"object":"response","error":null,"output":[],"usage":{"input_tokens":2,"output_tokens":5,"input_tokens_details":{"cached_tokens":1}}})", true, 2, 5},
      {R"({"usage":{"prompt_tokens":0,"completion_tokens":0}})", true, 0, 0},
      {R"({"input_tokens":14})", false, 0, 0},
      {R"({"usage":null})", false, 0, 0},
      {R"({"usage":{"prompt_tokens":"3"}})", false, 0, 0},
      {R"({"usage":{"prompt_tokens":3})", false, 0, 0},
      {R"({"choices":[{"message":{"content":"\ud83d\ude00"}}],"usage":{"prompt_tokens":3,"completion_tokens":4}})", true, 3, 4},
      {"[1", false, 0, 0},
      {"", false, 0, 0},
  };
  for (const auto &c : cases) {
    const token_usage found = usage_of_answer(exact(c.json));
    EXPECT_EQ(found.present, c.present) << c.json;
    EXPECT_EQ(found.prompt, c.prompt) << c.json;
    EXPECT_EQ(found.completion, c.completion) << c.json;
  }
}

TEST(event_json, cached_prompt_tokens_where_the_engine_tells) {
  const struct {
    std::string json;
    std::optional<uint64_t> cached;
  } cases[] = {
      {R"({"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":9}}})", 4},
      {R"({"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":0}}})", 0},
      {R"({"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":5},"output_tokens":1}})", 5},
      {R"({"usage":{"input_tokens":7,"cache_read_input_tokens":30,"output_tokens":1}})", 30},
      {R"({"usage":{"prompt_tokens":7,"prompt_tokens_details":null}})", std::nullopt},
      {R"({"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":null}}})", std::nullopt},
      {R"({"usage":{"prompt_tokens":7,"prompt_tokens_details":{"x":{"cached_tokens":4}}}})", std::nullopt},
      {R"({"usage":{"prompt_tokens":7,"cached_tokens":4}})", std::nullopt},
      {R"({"usage":{"prompt_tokens":7,"completion_tokens":3}})", std::nullopt},
      {R"({"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":-4}}})", std::nullopt},
  };
  for (const auto &c : cases) {
    EXPECT_EQ(usage_of_answer(exact(c.json)).cached, c.cached) << c.json;
    stream_facts facts;
    parse_event(c.json, facts);
    EXPECT_EQ(facts.usage.cached, c.cached) << c.json;
  }
}

TEST(event_json, counts_that_no_engine_has_are_bounded) {
  const token_usage found = usage_of_answer(
      R"({"usage":{"input_tokens":18446744073709551615,"cache_read_input_tokens":18446744073709551615,"output_tokens":123456789012345678}})");
  EXPECT_EQ(found.prompt, 2 * usage_report::most);
  EXPECT_EQ(found.completion, usage_report::most);
}

}  // namespace
}  // namespace hive::http
