#include "gateway/request_scan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <random>

namespace hive::gateway {
namespace {

using testing::HasSubstr;

// A body costs at most 200 ms, whatever it is. Sanitizers make it slower, ThreadSanitizer up to 30 times.
#if defined(__SANITIZE_THREAD__)
constexpr double most_ms = 6000;
#elif defined(__SANITIZE_ADDRESS__)
constexpr double most_ms = 2000;
#else
constexpr double most_ms = 200;
#endif

double thread_cpu_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

class request_scan_test : public testing::Test {
 protected:
  // Every body stands in memory of its exact size plus padding, so that ASan sees a read beyond.
  std::optional<scan_error> scan(const std::string &body) {
    const auto bytes = std::make_unique<char[]>(body.size() + 64);
    std::copy(body.begin(), body.end(), bytes.get());
    const double before = thread_cpu_ms();
    auto error = scanner_.scan({bytes.get(), body.size()}, out_);
    slowest_ms_ = std::max(slowest_ms_, thread_cpu_ms() - before);
    return error;
  }
  double slowest_ms_ = 0;
  request_scanner scanner_;
  request_scan out_;
};

TEST_F(request_scan_test, reads_what_routing_needs) {
  const std::string body =
      R"({"messages":[{"role":"user","content":"hi"}], "model" : "org/m\u00f6del:7b" ,"stream":true,)"
      R"("stream_options": {"a":[{"include_usage":false}],"include_usage":true} ,"max_tokens":128,"max_completion_tokens":0,)"
      R"("user":"u\"1","n":3,"seed":123456789012345678901234567890,"x":[1e400,-0.5,null,true,{}]})";
  ASSERT_FALSE(scan(body));
  EXPECT_EQ(out_.model, "org/m\xc3\xb6" "del:7b");
  EXPECT_EQ(body.substr(out_.model_at.offset, out_.model_at.length), R"("org/m\u00f6del:7b")");
  EXPECT_EQ(body.substr(out_.stream_options_at.offset, out_.stream_options_at.length),
            R"({"a":[{"include_usage":false}],"include_usage":true})");
  EXPECT_TRUE(out_.stream);
  EXPECT_TRUE(out_.include_usage);
  EXPECT_EQ(out_.max_tokens, 128u);
  EXPECT_EQ(out_.declared_output(), 128u);
  EXPECT_EQ(out_.object_at, 0u);
}

TEST_F(request_scan_test, a_bom_and_white_space_around_the_object_are_accepted) {
  ASSERT_FALSE(scan("\xEF\xBB\xBF \r\n{\"model\":\"m\"}\n\t "));
  EXPECT_EQ(out_.object_at, 6u);
  EXPECT_EQ(out_.model_at.offset, 15u);
}

TEST_F(request_scan_test, a_text_in_place_of_a_comma_is_refused_whatever_stands_behind_the_body) {
  for (const std::string body : {R"({"model":"m","stream":"trueoptions":null,"user":[]})", R"({"model":"m","a":"b":1})", R"({"model":"m","a":{"b":"c":1}})",
                                 R"({"model":"m","a":["b":1]})", R"({"model":"m","messages":[{"content":"x":"y"}]})"}) {
    for (const char behind : {'\0', '}', ']', '"', ','}) {
      const std::string padded = body + std::string(64, behind);
      EXPECT_TRUE(scanner_.scan(std::string_view(padded).substr(0, body.size()), out_)) << body << behind;
    }
  }
}

TEST_F(request_scan_test, fields_inside_other_values_are_not_taken_for_our_own) {
  ASSERT_FALSE(scan(R"({"a":{"model":"x","stream":true},"messages":[{"content":"\"model\":\"y\"","model":"z"}],"models":"q","model":"m"})"));
  EXPECT_EQ(out_.model, "m");
  EXPECT_FALSE(out_.stream);
}

// Go's encoding/json (Ollama) takes them for the fields themselves, and the last one counts: another model, limit or prompt than was judged.
// Naive variants: keys are compared byte by byte; ASCII letters alone are folded; before the escapes are gone.
TEST_F(request_scan_test, no_other_spelling_of_a_field_that_is_read_passes_by) {
  const std::pair<const char *, const char *> refused[] = {
      {R"("Model":"big")", "model"},
      {R"("MODEL":"big")", "model"},
      {R"("\u004dodel":"big")", "model"},
      {R"("mODE\u004c":null)", "model"},
      {R"("Stream":true)", "stream"},
      {"\"\xc5\xbftream\":true", "stream"},
      {R"("\u017ftream":true)", "stream"},
      {R"("Max_Tokens":9)", "max_tokens"},
      {"\"max_to\xe2\x84\xaa" "en\xc5\xbf\":9", "max_tokens"},
      {R"("MAX_COMPLETION_TO\u212AENS":9)", "max_completion_tokens"},
      {R"("max_Output_tokens":9)", "max_output_tokens"},
      {R"("N":64)", "n"},
      {R"("Best_Of":64)", "best_of"},
      {R"("N_predict":64)", "n_predict"},
      {R"("Messages":[])", "messages"},
      {R"("System":"s")", "system"},
      {R"("Tools":[])", "tools"},
      {R"("Prompt":"p")", "prompt"},
      {R"("Input":"p")", "input"},
      {R"("Stream_Options":{})", "stream_options"},
      {R"("stream_options":{"Include_Usage":true})", "include_usage"}};
  for (const auto &[field, name] : refused) {
    for (const std::string &body : {"{\"model\":\"small\"," + std::string(field) + "}", "{" + std::string(field) + ",\"model\":\"small\"}"}) {
      const auto error = scan(body);
      ASSERT_TRUE(error) << body;
      EXPECT_THAT(error->message, HasSubstr("write \"" + std::string(name) + "\"")) << body;
    }
  }
  EXPECT_EQ(scan(R"({"model":"small","a":1, "Model":"big"})")->offset, 24u);
  // Near, and of no reader: other letters, other lengths, other places.
  for (const char *field : {R"("Models":1)", R"("modél":1)", R"("ｍodel":1)", R"("mod\u0000el":1)", R"("Temperature":1,"\u017f":1)", R"("İnput":1)",
                            R"("a":{"Model":"x","Stream":true})", R"("stream_options":{"a":{"Include_Usage":true}})"})
    EXPECT_FALSE(scan("{\"model\":\"small\"," + std::string(field) + "}")) << field;
  EXPECT_FALSE(scan("{\"model\":\"small\",\"" + std::string(100'000, 'M') + "\":1}"));
}

TEST_F(request_scan_test, text_and_images_are_counted_in_whatever_spelling_an_engine_may_read_them) {
  const std::pair<const char *, uint64_t> cases[] = {
      {R"({"role":"user","Content":"12345"})", 5},
      {R"({"role":"user","content":"1","CONTENT":"12345"})", 6},
      {R"({"role":"user","con\u0054ent":[{"Type":"text","Te\u0078t":"12"}]})", 2},
      {R"({"role":"assistant","Tool_Calls":[{"Function":{"Argument\u017f":"123"}}]})", 3},
      {R"({"role":"user","content":[{"type":"tool_use","INPUT":{"a":1}}]})", 7}};
  for (const auto &[message, bytes] : cases) {
    ASSERT_FALSE(scan(R"({"model":"m","messages":[)" + std::string(message) + "]}")) << message;
    EXPECT_EQ(out_.text_bytes, bytes) << message;
  }
  ASSERT_FALSE(scan(R"({"model":"m","messages":[{"content":[{"Type":"image_url"},{"type":"image_url","Type":"text"},{"Type":"text"}]}]})"));
  EXPECT_EQ(out_.images, 2u);
}

TEST_F(request_scan_test, odd_values_are_left_to_the_engine_and_read_by_one_rule) {
  const struct {
    const char *value;
    std::optional<uint64_t> read;
  } cases[] = {{"1", 1},      {"1e2", 100},      {"1.9", 1},       {"0", 0},          {"-1", {}},
               {"-0", {}},    {"\"128\"", {}},   {"null", {}},     {"[1]", {}},       {"true", {}},
               {"1e-400", 0}, {"1e400", 1ull << 40}, {"99999999999999999999", 1ull << 40}, {"{\"a\":1}", {}}};
  for (const auto &c : cases) {
    ASSERT_FALSE(scan(std::string("{\"model\":\"m\",\"max_tokens\":") + c.value + "}")) << c.value;
    EXPECT_EQ(out_.max_tokens, c.read) << c.value;
  }
  for (const char *value : {"\"true\"", "1", "null", "{}", "false"}) {
    ASSERT_FALSE(scan(std::string("{\"model\":\"m\",\"stream\":") + value + ",\"stream_options\":" + value + ",\"user\":" + value + "}"));
    EXPECT_FALSE(out_.stream) << value;
    EXPECT_FALSE(out_.include_usage) << value;
  }
}

TEST_F(request_scan_test, text_messages_and_images_are_counted_also_in_nested_blocks) {
  ASSERT_FALSE(scan(R"({"model":"m","system":"12345678","messages":[
    {"role":"user","content":"abcd"},
    {"role":"user","content":null},
    {"role":"user","content":[{"type":"text","text":"\u00e4\ud83d\ude00\n"},{"image_url":{"url":"data:xxxxxxxx"},"type":"image_url"}]},
    {"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"xy"},{"type":"image","source":{"data":"zzz"}}]},
                              {"type":"thinking","thinking":"t"},{"type":"tool_use","input":{"a": 1}}]},
    {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]})"));
  EXPECT_EQ(out_.messages, 5u);
  EXPECT_EQ(out_.images, 2u);
  EXPECT_EQ(out_.text_entries, 6u);
  EXPECT_EQ(out_.text_bytes, 8u + 4 + 7 + 2 + 1 + 8 + 2);
  EXPECT_EQ(out_.text_quarters, 2u + 1 + 1);
  ASSERT_FALSE(scan(R"({"model":"m","tools":[ {"a":1} ] ,"prompt":["ab","c"]})"));
  EXPECT_EQ(out_.text_bytes, 11u + 3);
}

// Prompts of token ids would otherwise cost nothing, and an image whose type is spelt with escapes would be none.
TEST_F(request_scan_test, token_ids_are_a_token_each_and_escapes_hide_no_image) {
  ASSERT_FALSE(scan(R"({"model":"m","prompt":[[1,2,3],[4]],"n":7})"));
  EXPECT_EQ(out_.token_ids, 4u);
  ASSERT_FALSE(scan(R"({"model":"m","input":[10,20],"messages":[{"role":"user","content":[{"type":"text","text":"a","index":3}]}]})"));
  EXPECT_EQ(out_.token_ids, 2u);
  ASSERT_FALSE(scan(R"({"model":"m","messages":[{"role":"user","content":[{"type":"imag\u0065_url"},{"type":"\u0069mage"},{"type":"t\u00e9xt"}]}]})"));
  EXPECT_EQ(out_.images, 2u);
}

// What tools answered, what the model thought and what it called with are prompt like any other text.
TEST_F(request_scan_test, results_reasoning_and_calls_of_earlier_turns_are_counted_in_every_dialect) {
  const std::pair<const char *, uint64_t> cases[] = {
      {R"("messages":[{"role":"tool","tool_call_id":"id","content":"12345"}])", 5},
      {R"("messages":[{"role":"assistant","content":null,"reasoning_content":"123","reasoning":"45"}])", 5},
      {R"("messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"id","content":"12345"}]}])", 5},
      {R"("messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"1234","signature":"abc"}]}])", 4},
      {R"("input":[{"type":"function_call","call_id":"id","name":"f","arguments":"{\"a\":1}"}])", 7},
      {R"("input":[{"type":"function_call_output","call_id":"id","output":"12345"}])", 5},
      {R"("input":[{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"123"}]}])", 3},
      {R"("messages":[{"role":"assistant","content":[{"type":"refusal","refusal":"1234"}]}])", 4},
      {R"("messages":[{"role":"assistant","content":null,"refusal":"1234"}])", 4},
      {R"("messages":[{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"123"}}])", 3},
      {R"("messages":[{"role":"assistant","tool_calls":[{"type":"custom","custom":{"name":"f","input":"123"}}]}])", 3},
      {R"("functions":[{"name":"f"}])", 14},
      {R"("prompt":"12","suffix":"345")", 5},
      {R"("prompt":{"prompt_string":"123","multimodal_data":["QUJD"]})", 3},
      {R"("prompt":[{"prompt_string":["12",7]}])", 2}};
  for (const auto &[fields, bytes] : cases) {
    ASSERT_FALSE(scan(std::string("{\"model\":\"m\",") + fields + "}")) << fields;
    EXPECT_EQ(out_.text_bytes, bytes) << fields;
  }
}

// Naive variants: a document is no text; its data is, whatever it is; the type is known before the data.
TEST_F(request_scan_test, documents_are_counted_by_what_their_source_says_it_is) {
  const struct {
    const char *part;
    uint64_t bytes, images;
  } cases[] = {
      {R"({"type":"document","source":{"type":"text","media_type":"text/plain","data":"1234\n"}})", 5, 0},
      {R"({"type":"document","source":{"data":"12345","type":"text"}})", 5, 0},
      {R"({"type":"document","source":{"\u0064ata":"12345","type":"t\u0065xt"}})", 5, 0},
      {R"({"type":"document","source":{"Data":"12345","Type":"text"}})", 5, 0},
      {R"({"type":"document","source":{"type":"base64","data":"QUJD"},"title":"12","context":"345"})", 5, 0},
      {R"({"type":"document","source":{"type":"url","url":"https://x"}})", 0, 0},
      {R"({"type":"document","source":{"type":"text","data":{"a":"b"}}})", 0, 0},
      {R"({"type":"document","source":{"type":"content","content":"123"}})", 3, 0},
      {R"({"type":"document","source":{"type":"content","content":[{"type":"text","text":"12"},{"type":"image","source":{"data":"QUJD"}}]}})", 2, 1},
      {R"({"type":"tool_result","content":[{"type":"document","source":{"type":"text","data":"123"}}]})", 3, 0},
      {R"({"type":"search_result","source":"https://x","title":"1","content":[{"type":"text","text":"23"}]})", 3, 0},
      {R"({"image_url":"https://x"})", 0, 1},
      {R"({"type":"image_url","image_url":{"url":"https://x"}})", 0, 1}};
  for (const auto &c : cases) {
    ASSERT_FALSE(scan(R"({"model":"m","messages":[{"role":"user","content":[)" + std::string(c.part) + "]}]}")) << c.part;
    EXPECT_EQ(out_.text_bytes, c.bytes) << c.part;
    EXPECT_EQ(out_.images, c.images) << c.part;
  }
  ASSERT_FALSE(scan(R"({"model":"m","prompt":[{"prompt_string":"a","multimodal_data":["QUJD","QUJD"]},{"prompt_string":"b","multimodal_data":["QUJD"]}]})"));
  EXPECT_EQ(out_.images, 3u);
}

TEST_F(request_scan_test, the_responses_routes_limit_of_output_is_read_too) {
  ASSERT_FALSE(scan(R"({"model":"m","max_output_tokens":77})"));
  EXPECT_EQ(out_.declared_output(), 77u);
  ASSERT_FALSE(scan(R"({"model":"m","max_output_tokens":-5,"max_tokens":3})"));
  EXPECT_EQ(out_.declared_output(), 3u);
}

// Naive variants: `n` answers are held to the limit of one; where an engine may read another limit than we do, ours counts.
TEST_F(request_scan_test, the_most_an_engine_may_generate_is_the_limit_for_each_choice_of_each_prompt) {
  const std::pair<const char *, std::optional<uint64_t>> cases[] = {
      {R"("max_tokens":10)", 10},
      {R"("max_tokens":10,"n":3)", 30},
      {R"("n":3,"max_tokens":10,"best_of":5,"n":4)", 50},
      {R"("max_tokens":10,"n":null)", 10},
      {R"("max_tokens":30,"max_completion_tokens":20)", 30},
      {R"("max_tokens":10,"max_completion_tokens":null)", 10},
      {R"("max_tokens":10,"prompt":["a","b","c"])", 30},
      {R"("max_tokens":10,"prompt":[[1,2],[3]],"n":2)", 60},
      {R"("max_tokens":1,"max_output_tokens":20)", 20},
      {R"("max_output_tokens":20,"max_completion_tokens":1)", 20},
      {R"("max_tokens":1,"n_predict":4096)", {}},
      {R"("max_tokens":1,"n_cmpl":8)", {}},
      {R"("max_tokens":1,"prompt_embeds":["a","b"])", {}},
      {R"("n":3)", {}},
      {R"("max_tokens":0)", {}},
      {R"("max_tokens":-1,"max_completion_tokens":10)", {}},
      {R"("max_tokens":"500","max_completion_tokens":10)", {}},
      {R"("max_tokens":10,"n":"3")", {}},
      {R"("max_tokens":10,"n":-1)", {}},
      {R"("max_tokens":1e30,"n":1e30)", {}}};
  for (const auto &[fields, most] : cases) {
    ASSERT_FALSE(scan(std::string("{\"model\":\"m\",") + fields + "}")) << fields;
    EXPECT_EQ(out_.most_output(false), most) << fields;
  }
  ASSERT_FALSE(scan(R"({"model":"m","max_tokens":10,"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]})"));
  EXPECT_EQ(out_.most_output(true), 10);
  EXPECT_EQ(out_.most_output(false), 20) << "where a list is several prompts, junk beside it makes no bound smaller";
}

// Naive variants: `n` answers hold the room of one; a prompt of a thousand token ids that of a thousand prompts.
TEST_F(request_scan_test, what_a_request_declares_counts_for_each_choice_of_each_prompt) {
  const std::pair<const char *, std::optional<uint64_t>> cases[] = {
      {R"("max_tokens":10)", 10},
      {R"("max_tokens":10,"n":3)", 30},
      {R"("n":3,"max_tokens":10,"best_of":5,"n":4)", 50},
      {R"("max_tokens":10,"n":0)", 10},
      {R"("max_tokens":10,"n":"3")", 10},
      {R"("max_tokens":30,"max_completion_tokens":20,"n":2)", 40},
      {R"("max_tokens":1,"n_predict":40,"n_cmpl":2)", 80},
      {R"("max_tokens":30,"n_predict":-1)", 30},
      {R"("max_tokens":10,"prompt":"abc")", 10},
      {R"("max_tokens":10,"prompt":[])", 10},
      {R"("max_tokens":10,"prompt":["a","b","c"])", 30},
      {R"("prompt":[[1,2],[3]],"n":2,"max_tokens":10)", 40},
      {R"("max_tokens":10,"prompt":[1,2,3])", 10},
      {R"("max_tokens":10,"prompt":["a", 7 ,"b"])", 10},
      {R"("max_tokens":10,"prompt":[{"prompt_string":"a"},{"prompt_string":["b","c"]}])", 20},
      {R"("max_tokens":10,"prompt":"a","x":["b","c"],"input":["d","e"])", 10},
      {R"("max_tokens":10,"prompt":{"a":["b","c"]})", 10},
      {R"("n":3,"prompt":["a","b"])", {}},
      {R"("max_tokens":0,"n":3)", 0},
      {R"("max_tokens":-1,"n":3)", {}},
      {R"("max_tokens":1000000000000,"n":2)", 1ull << 40},
      {R"("max_tokens":1e30,"n":1e30,"prompt":["a","b"])", 1ull << 40}};
  for (const auto &[fields, all] : cases) {
    ASSERT_FALSE(scan(std::string("{\"model\":\"m\",") + fields + "}")) << fields;
    EXPECT_EQ(out_.output_footprint(false), all) << fields;
  }
  ASSERT_FALSE(scan(R"({"model":"m","max_tokens":10,"n":2,"prompt":["a","b"]})"));
  EXPECT_EQ(out_.output_footprint(true), 20) << "a chat does not read it";
}

TEST_F(request_scan_test, refuses_what_is_not_one_sound_object_with_a_model) {
  const std::string deep(100'000, '[');
  const struct {
    std::string body;
    const char *says;
    int offset;  // -1: any
  } cases[] = {
      {"", "empty", 0},
      {" \n", "empty", 0},
      {"\xEF\xBB\xBF", "empty", 0},
      {"[]", "one JSON object", 0},
      {"\"model\"", "one JSON object", 0},
      {"{}", "\"model\" is missing", 0},
      {R"({"model":null})", "\"model\" is missing", 0},
      {R"({"model":""})", "1 to 256 bytes", 9},
      {R"({"model":")" + std::string(257, 'm') + "\"}", "1 to 256 bytes", 9},
      {R"({"model":1})", "must be a string", 9},
      {R"({"model":["m"]})", "must be a string", 9},
      {R"({"model":"m"} x)", "", -1},
      {R"({"model":"m"}{"model":"n"})", "more follows", 13},
      {R"({"model":"m"}})", "more follows", 13},
      {R"({"model":"m"}  ,{})", "more follows", 15},
      {R"({"model":"m")", "", -1},
      {R"({"model":"m)", "not closed", -1},
      {R"({"model":"m","a":[1,2})", "not valid JSON", -1},
      {R"({"model":"m","a":[1 2]})", "not valid JSON", -1},
      {R"({"model":"m","a":[1,]})", "not valid JSON", -1},
      {R"({"model":"m","a":{"b"}})", "not valid JSON", -1},
      {R"({"model":"m","a":{"b":}})", "not valid JSON", -1},
      {R"({"model":"m","a":tru})", "a value is not JSON", 17},
      {R"({"model":"m","a":nul})", "a value is not JSON", 17},
      {R"({"model":"m","a":NaN})", "a value is not JSON", 17},
      {R"({"model":"m","a":01})", "a value is not JSON", 17},
      {R"({"model":"m","a":1.})", "a value is not JSON", 17},
      {R"({"model":"m","a":+1})", "a value is not JSON", 17},
      {R"({"model":"m","a":'x'})", "not valid JSON", -1},
      {R"({"model":"m","a":"\x"})", "bad escape", 17},
      {R"({"model":"m","a":"\u12g4"})", "bad escape", 17},
      {R"({"model":"m",})", "not valid JSON", -1},
      {R"({model:"m"})", "not valid JSON", -1},
      {"{\"model\":\"m\",\"a\":\"\x01\"}", "control character", 18},
      {"{\"model\":\"m\",\"a\":\"\xff\"}", "UTF-8", 18},
      {"{\"model\":\"m\",\"a\":\"\xed\xa0\x80\"}", "UTF-8", 18},
      {R"({"model":"m","a":)" + deep + "}", "nested deeper", -1},
      {R"({"model":"m","model":"m"})", "\"model\" occurs twice", -1},
      {R"({"model":"m","mod\u0065l":"n"})", "\"model\" occurs twice", -1},
      {R"({"model":"m","stream":true,"stream":null})", "\"stream\" occurs twice", -1},
      {R"({"model":"m","max_tokens":1,"max_tokens":2})", "\"max_tokens\" occurs twice", -1},
      {R"({"model":"m","user":"a","user":"b"})", "\"user\" occurs twice", -1},
  };
  for (const auto &c : cases) {
    const auto error = scan(c.body);
    ASSERT_TRUE(error) << c.body.substr(0, 80);
    EXPECT_THAT(error->message, HasSubstr(c.says)) << c.body.substr(0, 80);
    EXPECT_LE(error->offset, c.body.size());
    if (c.offset >= 0) {
      EXPECT_EQ(error->offset, static_cast<size_t>(c.offset)) << c.body.substr(0, 80) << error->message;
    }
  }
}

TEST_F(request_scan_test, attacks_of_size_and_depth_are_judged_without_harm) {
  constexpr size_t size = 10 << 20;
  const std::string open = R"({"model":"m","a":)";
  EXPECT_TRUE(scan(open + std::string(size, '[')));
  EXPECT_TRUE(scan(open + std::string(size, '{') + "}"));
  std::string nested = open;
  while (nested.size() < size) nested += "{\"a\":";
  EXPECT_TRUE(scan(nested + "}"));
  std::string wide = open + "[0";
  while (wide.size() < size) wide += ",0";
  EXPECT_FALSE(scan(wide + "]}"));
  EXPECT_FALSE(scan(open + "\"" + std::string(size, 'x') + "\"}"));
  std::string escapes = open + "\"";
  while (escapes.size() < size) escapes += "\\n";
  EXPECT_FALSE(scan(escapes + "\"}"));
  for (const char *repeated : {"\"", "\\", ",", "1", "[]", "{\"k\":[", "\"\\ud800\""}) {
    std::string bomb = open;
    while (bomb.size() < size) bomb += repeated;
    EXPECT_TRUE(scan(bomb)) << repeated;
  }
  std::string keys = R"({"model":"m")";
  while (keys.size() < size) keys += R"(,"\u006bey":0)";
  EXPECT_FALSE(scan(keys + "}"));
  std::string parts = R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"")";
  while (parts.size() < size) parts += R"(},{"type":"text","text":"\n")";
  EXPECT_FALSE(scan(parts + "}]}]}"));
  EXPECT_LT(slowest_ms_, most_ms);
  EXPECT_FALSE(scan(R"({"model":"m"})"));
}

TEST_F(request_scan_test, every_cut_of_a_sound_body_is_refused_and_no_mutation_does_harm) {
  const std::string good =
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a\u00e4\\"}]}],"stream":true,"n":[1.5e3,-2,null]})";
  ASSERT_FALSE(scan(good));
  for (size_t cut = 0; cut < good.size(); ++cut) ASSERT_TRUE(scan(good.substr(0, cut))) << cut;
  std::mt19937 random(3);
  const std::string alphabet = "{}[]:,\"\\u0e1 -.ntfx\xc3\xa4";
  for (int i = 0; i < 30'000; ++i) {
    std::string body = good;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % body.size();
      switch (random() % 3) {
        case 0: body[at] = alphabet[random() % alphabet.size()]; break;
        case 1: body.erase(at, 1 + random() % 5); break;
        default: body.insert(at, 1, alphabet[random() % alphabet.size()]); break;
      }
      if (body.empty()) break;
    }
    if (const auto error = scan(body)) {
      ASSERT_LE(error->offset, body.size());
    } else {
      ASSERT_FALSE(out_.model.empty());
    }
  }
}

}  // namespace
}  // namespace hive::gateway
