// TensorBoard event files: bytes as Google's protobuf and TensorFlow's record writer give them.
#include "report/crc32c.h"
#include "report/event_encoding.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include <reprise/report/event_file.h>

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

std::string hex(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<uint8_t>(byte) >> 4];
    text += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return text;
}

template <class Number>
Number number_at(const std::string& bytes, size_t offset) {
  Number value{};
  std::memcpy(&value, bytes.substr(offset, sizeof(value)).c_str(), sizeof(value));
  return value;
}

/// The events of a file, with every checksum compared.
std::vector<std::string> events_in(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = number_at<uint64_t>(bytes, at);
    EXPECT_EQ(number_at<uint32_t>(bytes, at + 8), report::masked_crc32c(bytes.substr(at, 8)));
    events.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(number_at<uint32_t>(bytes, at + 12 + length), report::masked_crc32c(events.back()));
    at += 16 + length;
  }
  return events;
}

TEST(Crc32c, GivesTheCheckValuesOfItsStandard) {
  // RFC 3720, appendix B.4; and the check value of the catalogue of CRC algorithms.
  std::string ascending;
  for (char i = 0; i < 32; ++i) {
    ascending += i;
  }
  EXPECT_EQ(report::crc32c(""), 0u);
  EXPECT_EQ(report::crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(report::crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(report::crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(report::crc32c(ascending), 0x46DD794Eu);
}

// Made with Google's protobuf 7.36 from the messages of TensorBoard's event.proto, framed with
// masked checksums that were computed bit by bit.
TEST(EventEncoding, GivesTheBytesThatProtobufGives) {
  using namespace report;
  EXPECT_EQ(hex(framed(version_event(1700000000.5))),
            "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110");
  EXPECT_EQ(
      hex(framed(scalar_event({{"train/loss", 2.5}}, {1700000001.25, 300}))),
      "2100000000000000017becf60900005040fc54d94110ac022a130a110a0a747261696e2f6c6f73731500002040"
      "862426a8");
  EXPECT_EQ(hex(framed(restart_event({1700000002, 301}))),
            "100000000000000095fbfe180900008040fc54d94110ad023a02080184a4031a");
  EXPECT_EQ(
      hex(framed(text_event("c/text_summary", "# x", {1700000003, 1}))),
      "3800000000000000a3797d57090000c040fc54d94110012a2b0a290a0e632f746578745f73756d6d617279420d"
      "080712041202080142032320784a080a060a04746578748ecc5ace");
}

TEST(EventFile, BeginsWithTheVersionAndIsNamedAsTensorBoardLooksForIt) {
  const TemporaryFolder folder;
  const EventFile file(folder / "runs", 1700000000.5);
  const std::string name = file.path().filename().string();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.1700000000.")) << name;
  EXPECT_EQ(events_in(file.path()), std::vector<std::string>{report::version_event(1700000000.5)});
}

TEST(EventFile, KeepsTwoFilesOfOneSecondApart) {
  const TemporaryFolder folder;
  const EventFile first(folder.path(), 5), second(folder.path(), 5);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(folder.names().size(), 2u);
}

TEST(EventFile, ShowsEachEventAtOnce) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 1);
  file.add_scalar("eval/loss", 0.5, 7, 2);
  EXPECT_EQ(events_in(file.path()).at(1), report::scalar_event({{"eval/loss", 0.5}}, {2, 7}));
  file.add_text("configuration", "    x: 1", 3);
  EXPECT_EQ(events_in(file.path()).at(2),
            report::text_event("configuration/text_summary", "    x: 1", {3, 0}));
}

TEST(EventFile, NamesTheNumbersOfARecordAsTrainerDoes) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 1);
  file.add_record({{"step", 9},
                   {"loss", 1.5},
                   {"rewards/chosen", -2},
                   {"eval_loss", 3.0},
                   {"eval_rewards/margins", 4.0},
                   {"memory", {{"activations", 1024}}},
                   {"note", "no number"},
                   {"missing", nullptr}},
                  2);
  EXPECT_EQ(events_in(file.path()).at(1),
            report::scalar_event({{"train/loss", 1.5},
                                  {"train/rewards/chosen", -2},
                                  {"eval/loss", 3},
                                  {"eval/rewards/margins", 4},
                                  {"memory/activations", 1024}},
                                 {2, 9}));
}

TEST(EventFile, WritesNoEventForARecordWithoutNumbers) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 1);
  file.add_record({{"step", 9}, {"note", "x"}}, 2);
  EXPECT_EQ(events_in(file.path()).size(), 1u);
  expect_error([&] { file.add_record({{"loss", 1}}, 2); }, "integer \"step\"");
}

TEST(EventFile, HoldsValuesThatAreNotFinite) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 1);
  file.add_scalar("train/loss", std::numeric_limits<double>::infinity(), 1, 2);
  const std::string event = events_in(file.path()).at(1);
  EXPECT_EQ(number_at<float>(event, event.size() - 4), std::numeric_limits<float>::infinity());
}

TEST(EventFile, ARestartHidesTheStepsAfterTheOneItGoesOnFrom) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 1);
  file.mark_restart_after(20, 2);
  // TensorBoard drops events of this step and later ones.
  EXPECT_EQ(events_in(file.path()).at(1), report::restart_event({2, 21}));
}

TEST(EventFile, NamesTheFolderThatCannotBeMade) {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  expect_error([&] { EventFile(folder / "file/runs"); }, "file/runs");
}

}  // namespace
}  // namespace reprise::testing
