// Chat templates against what Python's jinja2 rendered (tests/fixtures/generate_templates.py), and
// what a hostile template can not do.
#include "jinja/template_use.h"
#include "support/fixtures.h"

#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/jinja/chat_template.h>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

namespace reprise {
namespace {

using testing::repeated;

std::tm fixed_time() {
  std::tm time{};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 13;
  time.tm_min = 5;
  time.tm_sec = 9;
  time.tm_wday = 5;
  time.tm_yday = 207;
  return time;
}

/// What a template gave: its text and ranges, or the message of its error.
struct Outcome {
  RenderedChat rendered;
  std::string error;
};

Outcome render(const std::string& text, const Json& variables, const TemplateLimits& limits = {}) {
  Outcome outcome;
  try {
    outcome.rendered = ChatTemplate(text, "test", limits).render(variables, fixed_time);
  } catch (const c10::Error& error) {
    outcome.error = error.what_without_backtrace();
  }
  return outcome;
}

std::string text_of(const std::string& text, const Json& variables = Json::object()) {
  const Outcome outcome = render(text, variables);
  EXPECT_EQ(outcome.error, "") << text;
  return outcome.rendered.text;
}

std::string error_of(const std::string& text,
                     const Json& variables = Json::object(),
                     const TemplateLimits& limits = {}) {
  const Outcome outcome = render(text, variables, limits);
  EXPECT_NE(outcome.error, "") << text << " rendered " << outcome.rendered.text.substr(0, 200);
  return outcome.error;
}

bool says(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

std::filesystem::path templates() {
  return testing::fixtures() / "templates";
}

TEST(ChatTemplate, RendersEveryChatAsTransformersDoes) {
  const Json fixture = read_json(templates() / "chats.json");
  size_t count = 0;
  for (const Json& expected : fixture["expected"]) {
    const auto name = expected["template"].get<std::string>();
    const auto chat = expected["chat"].get<std::string>();
    SCOPED_TRACE(name + " / " + chat);
    Json variables = fixture["chats"][chat];
    variables["bos_token"] = "<s>";
    variables["eos_token"] = "</s>";
    for (const char* absent : {"tools", "documents"}) {
      if (!variables.contains(absent)) {
        variables[absent] = nullptr;
      }
    }
    const Outcome outcome = render(read_file(templates() / (name + ".jinja")), variables);
    if (expected.contains("error")) {
      ASSERT_NE(outcome.error, "");
      if (expected["error"].is_string()) {
        EXPECT_TRUE(says(outcome.error, expected["error"].get<std::string>())) << outcome.error;
      }
    } else {
      EXPECT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.rendered.text, expected["text"].get<std::string>());
      EXPECT_EQ(Json(outcome.rendered.generated), expected["generated"]);
    }
    ++count;
  }
  EXPECT_GE(count, 25U * 6U);
}

TEST(ChatTemplate, RendersEveryConstructAsJinjaDoes) {
  const Json fixture = read_json(templates() / "cases.json");
  for (const Json& expected : fixture["cases"]) {
    const auto text = expected["template"].get<std::string>();
    const Outcome outcome = render(text, fixture["variables"]);
    if (expected.contains("error")) {
      EXPECT_NE(outcome.error, "") << text << " rendered " << outcome.rendered.text;
    } else {
      EXPECT_EQ(outcome.error, "") << text;
      EXPECT_EQ(outcome.rendered.text, expected["text"].get<std::string>()) << text;
    }
  }
  EXPECT_GE(fixture["cases"].size(), 250U);
}

TEST(ChatTemplate, RefusesToFormatAFloatAsACharacter) {
  EXPECT_EQ(ChatTemplate("{{ '{:c}{:c}'.format(65, true) }}").render(Json::object()).text, "A\x01");
  EXPECT_THROW(ChatTemplate("{{ '{:c}'.format(0.5) }}").render(Json::object()), c10::Error);
}

TEST(ChatTemplate, SaysWhetherItMarksGeneration) {
  EXPECT_TRUE(
      ChatTemplate("{% if x %}{% generation %}a{% endgeneration %}{% endif %}").marks_generation());
  EXPECT_FALSE(ChatTemplate("{{ 'generation' }}").marks_generation());
}

TEST(ChatTemplate, GivesGeneratedRangesInBytes) {
  const ChatTemplate chat(
      "é{% generation %}ü👍{% endgeneration %}x{% generation %}{% endgeneration %}");
  const RenderedChat rendered = chat.render(Json::object());
  EXPECT_EQ(rendered.text, "éü👍x");
  EXPECT_EQ(rendered.generated, (ByteRanges{{2, 8}, {9, 9}}));
}

TEST(ChatTemplate, CanBeRenderedAgainAndShared) {
  const ChatTemplate chat("{% set ns = namespace(n=x) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}");
  const ChatTemplate copy = chat;
  EXPECT_EQ(chat.render({{"x", 1}}).text, "2");
  EXPECT_EQ(copy.render({{"x", 5}}).text, "6");
  EXPECT_EQ(chat.render({{"x", 1}}).text, "2");
  EXPECT_EQ(copy.text(), chat.text());
}

TEST(ChatTemplate, TellsTheTimeOfTheClock) {
  EXPECT_EQ(text_of("{{ strftime_now('%d %b %Y') }}"), "26 Jul 2024");
  const std::string now = ChatTemplate("{{ strftime_now('%Y') }}").render(Json::object()).text;
  EXPECT_GE(std::stoi(now), 2024);
}

TEST(ChatTemplate, NamesSourceLineExpectedAndFound) {
  try {
    ChatTemplate("a\nb\n{{ 1 + }}", "tokenizer_config.json");
    FAIL();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_TRUE(says(message,
                     "tokenizer_config.json: line 3: expected 'an expression', found "
                     "'end of print statement'"))
        << message;
  }
}

TEST(ChatTemplate, NamesTheLineThatFailsToRender) {
  EXPECT_TRUE(says(error_of("{% for x in [1] %}\n\n{{ x.y.z }}\n{% endfor %}"),
                   "test: line 3: 'int object' has no attribute 'y'"));
}

TEST(ChatTemplate, PassesOnTheMessageOfRaiseException) {
  EXPECT_TRUE(says(error_of("{{ raise_exception('roles must alternate: ' ~ 3) }}"),
                   "roles must alternate: 3"));
}

TEST(ChatTemplate, RefusesWhatItDoesNotSupportByName) {
  EXPECT_TRUE(says(error_of("{% include 'x' %}"), "{% include %}"));
  EXPECT_TRUE(says(error_of("{% extends 'x' %}"), "{% extends %}"));
  EXPECT_TRUE(says(error_of("{% block x %}{% endblock %}"), "{% block %}"));
  EXPECT_TRUE(
      says(error_of("{% if false %}{{ x|pprint }}{% endif %}"), "No filter named 'pprint'"));
  EXPECT_TRUE(says(error_of("{% if false and x is odder %}{% endif %}"), "No test named 'odder'"));
  EXPECT_TRUE(says(error_of("{{ 'a'.encode('utf-8') }}"), "str.encode is not supported"));
  EXPECT_TRUE(says(error_of("{{ '\\N{BULLET}' }}"), "\\N{...}"));
}

TEST(ChatTemplate, RefusesToChangeValues) {
  const Json variables = {{"xs", {1}}, {"d", {{"a", 1}}}};
  EXPECT_TRUE(says(error_of("{{ xs.append(2) }}", variables), "access to attribute 'append'"));
  EXPECT_TRUE(says(error_of("{{ d.update(b=2) }}", variables), "access to attribute 'update'"));
  EXPECT_EQ(text_of("{{ xs.append }}{{ d.__class__ }}", variables), "");
}

TEST(ChatTemplate, RefusesVariablesThatAreNoObject) {
  EXPECT_TRUE(
      says(error_of("x", Json::array()), "expected the variables as an object, found array"));
}

TEST(ChatTemplate, RefusesTextThatIsNotUtf8) {
  EXPECT_TRUE(says(error_of("a\xff"), "UTF-8"));
  EXPECT_TRUE(says(error_of("{{ x }}", {{"x", "\xc3"}}), "UTF-8"));
  EXPECT_TRUE(says(error_of("{{ '\\ud800' }}"), "no character"));
}

TEST(ChatTemplate, RefusesIntegersBeyond64Bits) {
  EXPECT_TRUE(says(error_of("{{ 99999999999999999999 }}"), "beyond 64 bits"));
  EXPECT_TRUE(says(error_of("{{ 9223372036854775807 + 1 }}"), "beyond 64 bits"));
  EXPECT_TRUE(says(error_of("{{ 2 ** 63 }}"), "beyond 64 bits"));
  EXPECT_TRUE(says(error_of("{{ -(-9223372036854775807 - 1) }}"), "beyond 64 bits"));
  EXPECT_TRUE(says(error_of("{{ (-9223372036854775807 - 1) // -1 }}"), "beyond 64 bits"));
  EXPECT_EQ(text_of("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  EXPECT_TRUE(says(error_of("{{ x }}", {{"x", UINT64_MAX}}), "beyond 64 bits"));
}

TEST(ChatTemplateLimits, BoundNestingOfTheText) {
  for (const auto& [open, close] :
       std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                        {"[", "]"},
                                                        {"-", ""},
                                                        {"not ", ""},
                                                        {"x[", "]"},
                                                        {"f(", ")"},
                                                        {"{1:", "}"},
                                                        {"1 if 1 else ", ""}}) {
    const std::string text = "{{ " + repeated(open, 10'000) + "1" + repeated(close, 10'000) + " }}";
    EXPECT_TRUE(says(error_of(text), "nested more than 256 deep")) << open;
  }
  for (const std::string chain : {".a", "[0]", "()", "|list", " if 1"}) {
    EXPECT_TRUE(says(error_of("{{ x" + repeated(chain, 10'000) + " }}"), "nested more than"))
        << chain;
  }
  EXPECT_TRUE(says(error_of(repeated("{% if 1 %}", 10'000)), "nested more than 256 deep"));
  EXPECT_TRUE(
      says(error_of("{% set " + repeated("(", 1000) + "a" + repeated(")", 1000) + " = 1 %}"),
           "nested more than"));
}

TEST(ChatTemplateLimits, LongFlatChainsAreNotNested) {
  EXPECT_EQ(text_of("{{ 0" + repeated(" + 1", 10'000) + " }}"), "10000");
  EXPECT_EQ(text_of("{{ 1" + repeated(" and 1", 10'000) + " }}"), "1");
  EXPECT_EQ(text_of("{{ ''" + repeated(" ~ 'a'", 1'000) + " }}").size(), 1'000U);
  EXPECT_EQ(text_of("{% if 0 %}" + repeated("{% elif 0 %}", 1'000) + "{% else %}z{% endif %}"),
            "z");
}

TEST(ChatTemplateLimits, BoundRecursionOfMacrosAndLoops) {
  EXPECT_TRUE(
      says(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "nested more than"));
  EXPECT_TRUE(says(error_of("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
                   "nested more than"));
}

TEST(ChatTemplateLimits, BoundNestingOfValues) {
  const std::string grow = "{% set ns = namespace(x=1) %}{% for i in range(90000) %}{% set ns.x = ";
  EXPECT_TRUE(says(error_of(grow + "[ns.x] %}{% endfor %}"), "nested more than"));
  EXPECT_TRUE(says(error_of(grow + "{1: ns.x} %}{% endfor %}"), "nested more than"));
  // Chains of objects are freed without recursion, and walking one is bounded.
  EXPECT_EQ(text_of(grow + "namespace(y=ns.x) %}{% endfor %}"), "");
  EXPECT_TRUE(says(error_of(grow + "[1]|map('abs') if i == 0 else ns.x|map('abs') %}{% endfor %}"
                                   "{{ ns.x|list }}"),
                   "nested more than"));
}

TEST(ChatTemplateLimits, FreeCyclesOfObjects) {
  EXPECT_EQ(text_of("{% set ns = namespace() %}{% set ns.me = [ns] %}"
                    "{% macro m() %}{{ ns }}{% endmacro %}{% set ns.m = m %}ok"),
            "ok");
  EXPECT_TRUE(
      says(error_of("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"), "nested more than"));
}

TEST(ChatTemplateLimits, BoundTheTextItself) {
  EXPECT_TRUE(says(error_of(std::string(300'000, 'x')), "expected at most 262144 bytes"));
}

TEST(ChatTemplateLimits, BoundSteps) {
  TemplateLimits limits;
  limits.max_steps = 100'000;
  const std::string loops =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
  EXPECT_TRUE(says(error_of(loops, Json::object(), limits), "100000 steps"));
  EXPECT_TRUE(
      says(error_of("{{ range(99999)|map('string')|map('length')|sum }}", Json::object(), limits),
           "100000 steps"));
}

TEST(ChatTemplateLimits, SearchingATextTakesLinearTime) {
  const std::string set = "{% set w = 'a' * 500000 + 'b' %}{% set t = 'a' * 1000000 %}";
  const std::string back = "{% set w = 'b' + 'a' * 500000 %}{% set t = 'a' * 1000000 %}";
  EXPECT_EQ(text_of(set + "{{ w in t }} {{ w in t + 'b' }}"), "False True");
  EXPECT_EQ(text_of(set + "{{ t.find(w) }} {{ (t + 'b').find(w) }} {{ t.count(w) }}"),
            "-1 500000 0");
  EXPECT_EQ(text_of(back + "{{ t.rfind(w) }} {{ ('b' + t).rfind(w) }}"), "-1 0");
  EXPECT_EQ(text_of(set + "{{ t.replace(w, '')|length }} {{ t.split(w)|length }}"), "1000000 1");
  EXPECT_EQ(text_of(back + "{{ t.rsplit(w)|length }} {{ t.rpartition(w)[2]|length }}"),
            "1 1000000");
}

TEST(ChatTemplateLimits, WalkingOverATextCostsSteps) {
  TemplateLimits limits;
  limits.max_steps = 500'000;
  for (const std::string walk : {"'b' in t",
                                 "t.find('b')",
                                 "t == u",
                                 "t < u",
                                 "t|length",
                                 "t.startswith('b')",
                                 "t.isupper()"}) {
    const std::string text =
        "{% set t = 'a' * 1000000 %}{% set u = 'a' * 1000000 %}"
        "{% for i in range(10000) %}{% set x = " +
        walk + " %}{% endfor %}";
    EXPECT_TRUE(says(error_of(text, Json::object(), limits), "500000 steps")) << walk;
  }
}

TEST(ChatTemplate, FindsOverlappingAndRepeatedParts) {
  EXPECT_EQ(
      text_of("{{ 'aabaabaac'.find('aabaac') }} {{ 'aabaabaac'.rfind('aaba') }} "
              "{{ 'aaaa'.count('aa') }} {{ 'aaaaa'.split('aa') }} {{ 'aaaaa'.rsplit('aa') }} "
              "{{ 'abcabc'.rfind('') }} {{ 'äöä'.rfind('ä') }} {{ 'xaxbx'.replace('x', '-') }}"),
      "3 3 2 ['', '', 'a'] ['a', '', ''] 6 2 -a-b-");
}

TEST(ChatTemplateLimits, BoundOutput) {
  TemplateLimits limits;
  limits.max_output = 1000;
  EXPECT_TRUE(says(error_of("{% for a in range(2000) %}x{% endfor %}", Json::object(), limits),
                   "1000 bytes"));
  EXPECT_TRUE(says(error_of("{% set x %}{{ 'a' * 2000 }}{% endset %}", Json::object(), limits),
                   "1000 bytes"));
}

TEST(ChatTemplateLimits, BoundIntermediateValues) {
  TemplateLimits limits;
  limits.max_allocated = size_t{32} << 20;
  limits.max_steps = 1'000'000;
  for (const std::string expression : {"'a' * 10 ** 15",
                                       "[0] * 10 ** 15",
                                       "9223372036854775807 * 'ab'",
                                       "'a'.ljust(10 ** 15)",
                                       "'a'|center(10 ** 15)",
                                       "'a'|indent(10 ** 15)",
                                       "'%999999999999d' % 1",
                                       "'%*d' % (10 ** 15, 1)",
                                       "'{:999999999999}'.format(1)",
                                       "'1'.zfill(10 ** 15)",
                                       "'\\t'.expandtabs(10 ** 15)",
                                       "[1]|batch(10 ** 15, 0)|list",
                                       "[1]|slice(10 ** 15)|list",
                                       "[1]|tojson(indent=10 ** 15)",
                                       "range(10 ** 15)",
                                       "('ab' * 10 ** 6).replace('a', 'b' * 10 ** 6)",
                                       "(['a' * 10 ** 6] * 10 ** 6)|join",
                                       "(['a' * 10 ** 6] * 10 ** 6)|tojson",
                                       "(['a' * 10 ** 6] * 10 ** 6)|string",
                                       "'%.999999f' % 1.0"}) {
    error_of("{{ " + expression + " }}", Json::object(), limits);
  }
  const std::string doubles = "{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}";
  error_of("{% set ns = namespace(s='a') %}" + doubles, Json::object(), limits);
}

}  // namespace
}  // namespace reprise
