#include "gateway/form_scan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace hive::gateway {
namespace {

using testing::HasSubstr;

const std::string type = "multipart/form-data; boundary=XX";

std::string field(const std::string &name, const std::string &value, const std::string &more = "") {
  return "--XX\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more + "\r\n\r\n" + value + "\r\n";
}

TEST(form_scan, reads_the_model_wherever_it_stands_and_takes_nothing_else_for_it) {
  constexpr char bytes[] = "RIFF\0\r\n--X\r\n\r\nname=\"model\"";
  const std::string file = field("file", std::string(bytes, sizeof bytes - 1), "; filename=\"a \\\"model\\\".wav\"");
  const std::string cases[] = {
      field("model", "whisper/large") + file + "--XX--\r\n",
      file + field("model", "whisper/large") + "--XX--",
      "preamble\r\n" + file + field("model", "whisper/large") + "--XX--\r\nepilogue",
      file + "--XX \t\r\ncontent-disposition:form-data ;  NAME=model\r\nContent-Type: text/plain\r\n\r\nwhisper/large\r\n--XX--",
      field("models", "other") + field("Model", "other") + "--XX\r\n\r\nno header\r\n" + field("model", "whisper/large") + "--XX--",
  };
  for (const std::string &body : cases) {
    request_scan out;
    const auto error = scan_form(type, body, out);
    ASSERT_FALSE(error) << error->message << "\n" << body;
    EXPECT_EQ(out.model, "whisper/large");
    EXPECT_EQ(body.substr(out.model_at.offset, out.model_at.length), "whisper/large");
    EXPECT_FALSE(out.stream);
  }
  request_scan out;
  EXPECT_FALSE(scan_form("Multipart/Form-Data; charset=utf-8; boundary=\"X X\"",
                         "--X X\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--X X\r\n"
                         "Content-Disposition: form-data; name=\"stream\"\r\n\r\ntrue\r\n--X X--", out));
  EXPECT_EQ(out.model, "m");
  EXPECT_TRUE(out.stream);
}

TEST(form_scan, refuses_what_an_engine_might_read_otherwise) {
  const std::string end = "--XX--\r\n";
  const struct { std::string type, body, says; } cases[] = {
      {"multipart/form-data", field("model", "m") + end, "boundary"},
      {"multipart/form-data; boundary=", field("model", "m") + end, "boundary"},
      {"multipart/form-data; boundary=" + std::string(71, 'b'), field("model", "m") + end, "boundary"},
      {"multipart/form-data; boundary=YY", field("model", "m") + end, "does not hold the boundary"},
      {type, "", "does not hold the boundary"},
      {type, end, "\"model\" is missing"},
      {type, field("other", "m") + end, "\"model\" is missing"},
      {type, field("model", "") + end, "1 to 256 bytes"},
      {type, field("model", std::string(257, 'm')) + end, "1 to 256 bytes"},
      {type, field("model", "m", "; filename=\"x\"") + end, "1 to 256 bytes"},
      {type, field("model", "m") + field("model", "n") + end, "occurs twice"},
      {type, field("stream", "true") + field("stream", "false") + field("model", "m") + end, "occurs twice"},
      {type, field("model", "m"), "does not end"},
      {type, "--XXY\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--XX--", "does not end"},
      {type, "--XX\r\nContent-Disposition: form-data; name=\"model\"", "does not end"},
      {type, "--XX\r\nX: " + std::string(5000, 'x') + "\r\n\r\nm\r\n--XX--", "4096"},
  };
  for (const auto &c : cases) {
    request_scan out;
    const auto error = scan_form(c.type, c.body, out);
    ASSERT_TRUE(error) << c.says;
    EXPECT_THAT(error->message, HasSubstr(c.says));
    EXPECT_LE(error->offset, c.body.size());
  }
}

TEST(form_scan, every_cut_is_refused_and_no_mutation_does_harm) {
  const std::string good = field("a", "1", "; x=\"\\\"y\"") + field("model", "m") + field("stream", "true") + "--XX--";
  request_scan out;
  ASSERT_FALSE(scan_form(type, good, out));
  for (size_t cut = 0; cut < good.size(); ++cut) ASSERT_TRUE(scan_form(type, good.substr(0, cut), out)) << cut;
  std::mt19937 random(5);
  const std::string alphabet = "\r\n-X\":;= \\model\t";
  for (int i = 0; i < 20'000; ++i) {
    std::string body = good;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % body.size();
      if (random() % 2 == 0) body[at] = alphabet[random() % alphabet.size()];
      else body.insert(at, 1, alphabet[random() % alphabet.size()]);
    }
    if (const auto error = scan_form(type, body, out)) {
      ASSERT_LE(error->offset, body.size());
    } else {
      ASSERT_FALSE(out.model.empty());
    }
  }
}

}  // namespace
}  // namespace hive::gateway
