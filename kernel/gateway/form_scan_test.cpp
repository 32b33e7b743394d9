#include "gateway/form_scan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

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
      file + "--XX \t\r\ncontent-disposition:form-data ;  name=model\r\nContent-Type: text/plain\r\n\r\nwhisper/large\r\n--XX--",
      field("models", "other") + field("mode", "other") + "--XX\r\n\r\nno header\r\n" + field("model", "whisper/large") + "--XX--",
      field("file", "x", "; filename*=utf-8''model%20a.wav; filename=\"model; a.wav\"") + field("model", "whisper/large") + "--XX-- \t\r\n",
      field("file", "a\n--X\r--X-\r\n-XX", "; filename=\"name.wav\"") + field("model", "whisper/large") + "--XX--\n",
      "--XX\r\nContent-Disposition: attachment; filename=\"a\"\r\n\r\nx\r\n" + field("model", "whisper/large") + "--XX--",
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
  EXPECT_FALSE(scan_form("multipart/form-data; boundary=----WebKitFormBoundary7MA4",
                         "------WebKitFormBoundary7MA4\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n------WebKitFormBoundary7MA4--\r\n", out));
  EXPECT_FALSE(scan_form("multipart/form-data; boundary=a/b=c", "--a/b=c\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--a/b=c--\r\n", out));
}

// Each is one model to a reader that goes by the letter and another to some other: Starlette, Go's mime/multipart, cpp-httplib, werkzeug.
// Naive variant: the first that fits is taken, and what does not fit is passed over.
TEST(form_scan, refuses_a_form_in_which_another_reader_finds_another_model) {
  const std::string small = field("model", "small"), end = "--XX--\r\n";
  const auto part = [](const std::string &lines, const std::string &value = "big") { return "--XX\r\n" + lines + "\r\n\r\n" + value + "\r\n"; };
  const auto said = [&](const std::string &parameters) { return part("Content-Disposition: form-data; " + parameters); };
  const struct { std::string body, says; } cases[] = {
      {said("name=\"x\"; name=\"model\"") + small + end, "twice"},
      {said("name=model; NAME=x") + end, "twice"},
      {said("name*=utf-8''model") + small + end, "name*"},
      {said("name=\"x\"; name*=utf-8''model") + small + end, "twice"},
      {said("name*0=mod; name*1=el") + small + end, "twice"},
      {said("name*0=\"model\"") + small + end, "name*"},
      {said("name*0*=utf-8''mod%65l") + small + end, "name*"},
      {part("Content-Disposition: form-data; name=\"x\"\r\nContent-Disposition: form-data; name=\"model\"") + small + end, "two Content-Disposition"},
      {part("content-disposition: attachment\r\nContent-Disposition: form-data; name=\"model\"") + small + end, "two Content-Disposition"},
      {part("Content-Disposition: form-data;\r\n name=\"model\"") + small + end, "no NAME: VALUE"},
      {part("Content-Disposition : form-data; name=\"model\"") + small + end, "no NAME: VALUE"},
      {part("X: y\nContent-Disposition: form-data; name=\"model\"") + small + end, "CRLF"},
      {part("X: y\rContent-Disposition: form-data; name=\"model\"") + small + end, "CRLF"},
      {part(std::string("Content-Disposition: form-data; name=\"model\0\"", 45)) + small + end, "control character"},
      {part("Content-Disposition: attachment; name=\"model\"") + small + end, "must be form-data"},
      {part("Content-Disposition: name=model; form-data") + small + end, "must be form-data"},
      {said("name=\"model;x\"") + small + end, "semicolons"},
      {part("X: y\r\n--XX: z\r\nContent-Disposition: form-data; name=\"model\"") + small + end, "no NAME: VALUE"},
      {said("x=\"; name=model; y=\"") + small + end, "inside of another text"},
      {said("x=\"\\\\\"; y=\"; name=model; z=\"") + small + end, "inside of another text"},
      {said("x=\"\\\\\"; name=\"model\"") + end, "escapes"},
      {said("\"name\"=model") + small + end, "inside of another text"},
      {said("name=<model>") + small + end, "escapes"},
      {said("nAme=\"model\"") + end, "lower case"},
      {said("NAME=model") + small + end, "lower case"},
      {said("name=\"mod\\el\"") + end, "escapes"},
      {said("name=\"model\"x") + end, "escapes"},
      {said("name=\"model") + end, "escapes"},
      {field("Model", "big") + small + end, "write \"model\""},
      {field("STREAM", "true") + small + end, "write \"stream\""},
      {field("model", "small", "; x=\"; filename=y\"") + end, "1 to 256 bytes"},
      {field("model", "small", "; filename*=utf-8''y") + end, "1 to 256 bytes"},
      {"x\n--XX\nContent-Disposition: form-data; name=\"model\"\n\nbig\n--XX--\n\r\n" + small + end, "line feed alone"},
      {field("x", "a\n--XX\nContent-Disposition: form-data; name=\"model\"\n\nbig") + small + end, "line feed alone"},
      {field("x", "a\r--XX\rContent-Disposition: form-data; name=\"model\"\r\rbig") + small + end, "carriage return alone"},
      {"\n" + small + end, "line feed alone"},
      {small + "--XX--x\r\n", "stands behind the form's last boundary"},
      {small + end + field("model", "big") + end, "again behind the form's end"},
  };
  for (const auto &c : cases) {
    request_scan out;
    const auto error = scan_form(type, c.body, out);
    ASSERT_TRUE(error) << c.body;
    EXPECT_THAT(error->message, HasSubstr(c.says)) << c.body;
    EXPECT_LE(error->offset, c.body.size());
  }
  for (const char *odd : {"boundary=XX; boundary=YY", "boundary=YY; boundary=XX", "boundary*=utf-8''XX", "boundary*0=X; boundary*1=X",
                          "x=\"boundary=YY\"; boundary=XX", "boundary =XX; x=\"boundary=YY\"", "boundary=<XX>", "boundary=\"XX\"Y", "boundary=\"XX",
                          "boundary=\"X\\X\"", "boundary=XX, multipart/form-data; boundary=YY"}) {
    request_scan out;
    const auto error = scan_form("multipart/form-data; " + std::string(odd), small + end, out);
    ASSERT_TRUE(error) << odd;
    EXPECT_THAT(error->message, HasSubstr("one boundary")) << odd;
  }
}

// Go's FormValue takes a query string's name before that of a form; what a form is, the Content-Type says.
TEST(form_scan, beside_the_body_nothing_names_a_model) {
  const std::string form = "multipart/form-data; boundary=XX", json = "application/json";
  const std::string pairs = "application/x-www-form-urlencoded", pairs_too = pairs + "; charset=utf-8";
  const std::string both = R"({"model":"small","x":"&model=big&"})";
  const struct { std::vector<http::field> fields; std::string query, body, says; } cases[] = {
      {{{"Content-Type", form}, {"content-type", form}}, "", "", "occurs twice"},
      {{{"Content-Type", json}, {"CONTENT-TYPE", form}}, "", "", "occurs twice"},
      {{{"Content-Type", form}}, "model=big", "", "query string"},
      {{{"Content-Type", form}}, "a=1&MODEL=big", "", "query string"},
      {{{"Content-Type", form}}, "a=1;mod%65l=big", "", "query string"},
      {{{"Content-Type", json}}, "%6d%6F%64%65%6c", "", "query string"},
      {{}, "model", "", "query string"},
      {{{"Content-Type", pairs_too}}, "", both, "application/json"},
      {{{"Content-Type", pairs}}, "", R"({"model":"small"})", ""},
      {{{"Content-Type", json}}, "", both, ""},
      {{}, "", both, ""},
      {{{"Content-Type", form}, {"X-Content-Type", form}}, "models=1&a=model&%6dode&mode%6", "", ""}};
  for (const auto &c : cases) {
    const auto error = read_otherwise(c.fields, c.query, c.body);
    ASSERT_EQ(error.has_value(), !c.says.empty()) << c.query << c.body;
    if (error) {
      EXPECT_THAT(error->message, HasSubstr(c.says)) << c.query << c.body;
    }
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
