// Frames of the link: records and metadata blocks stay inside the frame, and written out again they are the same.
#include <vector>

#include "fuzz.hpp"
#include "link/record.hpp"

using namespace hive;
using fuzz::must;
using link::frame_reader;

namespace {

bool inside(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void check_meta(std::string_view block) {
  link::meta_reader reader(block);
  link::meta_writer writer;
  std::vector<std::pair<std::string_view, std::string_view>> entries;
  std::string_view key, value;
  while (reader.next(key, value)) {
    must(inside(key, block) && inside(value, block), "an entry lies in its block");
    entries.emplace_back(key, value);
    must(writer.add(key, value), "what was read can be written");
    (void)link::number_or(value, 7);
  }
  must(!reader.next(key, value), "the end stays the end");
  must(entries.size() * 4 <= block.size(), "bounded entries");
  const std::string again = writer.take();
  link::meta_reader second(again);
  for (const auto &[k, v] : entries) must(second.next(key, value) && key == k && value == v, "entry by entry");
  must(!second.next(key, value) && !second.bad(), "and no more");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const fuzz::exact_copy copy({reinterpret_cast<const char *>(data), size});
  const std::string_view frame = copy.text();
  frame_reader reader(frame);
  link::record r;
  size_t records = 0, bytes = 0;
  frame_reader::outcome outcome;
  while ((outcome = reader.next(r)) == frame_reader::outcome::record) {
    ++records;
    must(inside(r.meta, frame) && inside(r.payload, frame), "a record lies in its frame");
    must(r.meta.size() <= link::max_meta_bytes && r.payload.size() <= link::max_payload_bytes, "bounded parts");
    const size_t need = link::encoded_bytes(r.meta.size(), r.payload.size());
    bytes += need;
    std::string out(need, '\0');
    must(link::encode_record(reinterpret_cast<uint8_t *>(out.data()), r, r.meta, r.payload) == need, "its size is known before");
    frame_reader again(out);
    link::record s;
    must(again.next(s) == frame_reader::outcome::record, "what was read can be written");
    must(s.what == r.what && s.flags == r.flags && s.stream == r.stream && s.credit == r.credit && s.seq == r.seq && s.aux == r.aux &&
             s.meta == r.meta && s.payload == r.payload,
         "and is the same");
    must(again.next(s) == frame_reader::outcome::end, "and no more");
    check_meta(r.meta);
  }
  must(outcome == reader.next(r), "end and bad stay so");
  must(bytes <= size && records * link::record_header_bytes <= size, "bounded records");
  must(outcome != frame_reader::outcome::end || bytes == size, "a good frame is read to its last byte");
  check_meta(frame);
  return 0;
}
