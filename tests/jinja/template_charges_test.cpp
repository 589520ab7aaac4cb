// Every operation of a template charges what it touches: with twice as much to read, it uses as
// many steps more as there is more to read. Counted, not timed.
#include "jinja/template_use.h"
#include "support/fixtures.h"

#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {
namespace {

using testing::repeated;
using testing::stopped_by;
using testing::use_of;

constexpr size_t kSize = 20'000;      // items, or characters of two bytes
constexpr size_t kBytesPerStep = 32;  // of TemplateLimits::max_steps

/// The expressions between ";;".
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(";;"), text.size());
    std::string part(text.substr(0, end));
    part.erase(0, part.find_first_not_of(" \n"));
    part.erase(part.find_last_not_of(" \n") + 1);
    parts.push_back(part);
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return parts;
}

/// The steps of an expression on `x`.
size_t steps_of(const std::string& expression, const Json& x) {
  const std::string text = "{% set y = " + expression + " %}";
  return use_of(text, {{"x", x}}).steps;
}

/// Twice the size costs at least `least` steps more, and not far more than twice as many.
void expect_charged(const std::string& expression,
                    const Json& one,
                    const Json& twice,
                    size_t least) {
  const size_t small = steps_of(expression, one);
  const size_t large = steps_of(expression, twice);
  EXPECT_GE(large, small + least) << expression << ": " << small << ", " << large;
  EXPECT_LE(large, 3 * small + 1000) << expression << ": " << small << ", " << large;
}

TEST(TemplateCharges, EveryOperationOnATextChargesItsBytes) {
  const std::string one = repeated("ä", kSize);
  const std::string twice = repeated("ä", 2 * kSize);
  const std::vector<std::string> expressions = split(R"(
      x[-1] ;; x[5] ;; x[1:3] ;; x[::2] ;; x[::-1] ;; x[5:1:-1] ;; x + 'a' ;; 'a' + x ;; x * 2 ;;
      x ~ 'a' ;; x == x ~ '' ;; x != x ~ '' ;; x < x ~ '' ;; x >= x ~ '' ;; 'b' in x ;;
      x in 'b' ;; '%s' % x ;; x % () ;; {x: 1} ;; {x: 1}[x] ;; {1: 1}[x] ;; {}.get(x) ;;
      [1][x] ;; x in [x ~ ''] ;; (x, 1) in {1: 2} ;; x|capitalize ;; x|center(9) ;; x|e ;;
      x|forceescape ;; x|format ;; x|indent ;; x|lower ;; x|replace('b', 'c') ;; x|safe ;;
      x|title ;; x|tojson ;; x|tojson(ensure_ascii=true) ;; x|trim ;; x|trim('ab') ;;
      x|truncate(9) ;; x|upper ;; x|urlencode ;; x|wordcount ;; x|int ;; x|float ;; x|length ;;
      x|list ;; x|reverse ;; x|first ;; x|last ;; x|join ;; x|join(',') ;; [x]|join ;; x|sort ;;
      x|unique|list ;; x|batch(3)|list ;; x|slice(3)|list ;; x|min ;; x|max ;;
      x|map('upper')|list ;; x|select|list ;; x|groupby(0)|list ;; 1|attr(x) ;; [x, 'b']|sort ;;
      [x, 'b']|min ;; [x]|unique|list ;; {x: 1}|dictsort ;; {1: x}|urlencode ;; [x]|string ;;
      [x]|tojson ;; x is upper ;; x is lower ;; x is sameas(x ~ '') ;; x is eq(x ~ '') ;;
      x is gt(x ~ '') ;; 'b' is in(x) ;; x is filter ;; x is test ;; x.capitalize() ;;
      x.casefold() ;; x.center(9) ;; x.expandtabs() ;; x.format() ;; x.isalnum() ;;
      x.isalpha() ;; x.isdecimal() ;; x.isdigit() ;; x.islower() ;; x.isspace() ;; x.istitle() ;;
      x.isupper() ;; x.ljust(9) ;; x.lower() ;; x.lstrip() ;; x.removeprefix('b') ;;
      x.removesuffix('b') ;; x.rjust(9) ;; x.rstrip('b') ;; x.strip() ;; x.swapcase() ;;
      x.title() ;; x.upper() ;; x.zfill(9) ;; x.count('b') ;; x.endswith('b') ;;
      'b'.endswith(x) ;; x.find('b') ;; x.join(['a', 'b']) ;; ','.join([x, x]) ;;
      x.partition('b') ;; x.replace('b', 'c') ;; 'b'.replace(x, 'c') ;; x.rfind('b') ;;
      x.rpartition('b') ;; x.rsplit('b') ;; x.rsplit() ;; x.split('b') ;; x.split() ;;
      x.splitlines() ;; x.startswith(('b', 'c')) ;; ('a' ~ x).index('a') ;;
      (x ~ 'a').rindex('a'))");
  for (const std::string& expression : expressions) {
    expect_charged(expression, one, twice, kSize * 2 / kBytesPerStep);
  }
}

TEST(TemplateCharges, EveryOperationOnAListChargesItsItems) {
  Json one = Json::array();
  while (one.size() < kSize) {
    one.push_back(one.size() % 7);
  }
  Json twice = one;
  twice.insert(twice.end(), one.begin(), one.end());
  const std::vector<std::string> expressions = split(R"(
      x + [1] ;; x * 2 ;; x[1:] ;; x[::-1] ;; x == x + [] ;; x < x + [1] ;; 9 in x ;; x|string ;;
      x ~ '' ;; x|tojson ;; x|join ;; x|list ;; x|reverse|list ;; x|last ;; x|sort ;; x|sum ;;
      x|min ;; x|map('abs')|max ;; x|unique|list ;; x|map('string')|list ;;
      x|select('odd')|list ;; x|reject|list ;; x|batch(7)|list ;; x|slice(7)|list ;;
      x.count(1) ;; x|map('abs')|sum ;; x is eq(x + []) ;; 9 is in(x) ;; namespace(a=x + []) ;;
      dict(x|batch(2)|list) ;; range(x|length)|list ;; '%s' % (x,) ;; '{}'.format(x) ;;
      cycler(*x) ;; x|map(attribute='a')|list)");
  for (const std::string& expression : expressions) {
    expect_charged(expression, one, twice, kSize);
  }
}

TEST(TemplateCharges, EveryOperationOnADictChargesItsEntries) {
  const auto dict_of = [](size_t size) {
    Json dict = Json::object();
    for (size_t i = 0; i < size; ++i) {
      dict.push_back({std::to_string(i), i});
    }
    return dict;
  };
  const Json one = dict_of(kSize / 10);
  const Json twice = dict_of(kSize / 5);
  for (const std::string expression : {"x|list",
                                       "x.keys()",
                                       "x.values()",
                                       "x.items()",
                                       "x|items|list",
                                       "x|dictsort",
                                       "dict(x)",
                                       "x|tojson",
                                       "x|tojson(sort_keys=true)",
                                       "x|string",
                                       "x|urlencode",
                                       "x == dict(x)",
                                       "x|length + x|list|length"}) {
    expect_charged(expression, one, twice, kSize / 10);
  }
}

TEST(TemplateCharges, StatementsChargeWhatTheyTouch) {
  const std::string one = repeated("ä", kSize);
  const std::string twice = repeated("ä", 2 * kSize);
  for (const std::string text :
       {"{{ x }}",
        "{% set y %}{{ x }}{% endset %}",
        "{% filter upper %}{{ x }}{% endfilter %}",
        "{% macro m() %}{{ x }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ x }}{% endcall %}",
        "{% generation %}{{ x }}{% endgeneration %}",
        "{% for c in x %}{% endfor %}",
        "{% for c in x if c == 'b' %}{% endfor %}",
        "{% for c in x|map('upper') recursive %}{{ loop.last }}{% endfor %}",
        "{% for c in x|map('upper') %}{{ loop.length if loop.first }}{% endfor %}"}) {
    const TemplateUse small = use_of(text, {{"x", one}});
    const TemplateUse large = use_of(text, {{"x", twice}});
    EXPECT_GE(large.steps, small.steps + kSize * 2 / kBytesPerStep) << text;
    EXPECT_LE(large.steps, 3 * small.steps + 1000) << text;
    EXPECT_GE(large.allocated, small.allocated + 2 * kSize) << text;
  }
}

TEST(TemplateCharges, NamesChargeTheSearchForThem) {
  // Twice as many variables, attributes or arguments: the same lookup costs more.
  const auto lookups = [](size_t count) {
    std::string set;
    std::string keywords;
    for (size_t i = 0; i < count; ++i) {
      set += "{% set v" + std::to_string(i) + " = 1 %}";
      keywords += (i == 0 ? "k" : ", k") + std::to_string(i) + "=1";
    }
    const std::string loop = "{% for i in range(1000) %}";
    return std::vector<std::string>{
        set + loop + "{% set q = last %}{% endfor %}",
        "{% set ns = namespace(" + keywords + ") %}" + loop + "{% set q = ns.last %}{% endfor %}",
        "{% macro m() %}{{ kwargs }}{% endmacro %}" + loop + "{% set q = m(" + keywords +
            ") %}{% endfor %}",
        loop + set + "{% endfor %}",
        loop + "{% set q = '{last}'.format(" + keywords + ", last=1) %}{% endfor %}"};
  };
  const auto few = lookups(50);
  const auto many = lookups(100);
  for (size_t i = 0; i < few.size(); ++i) {
    EXPECT_GE(use_of(many[i]).steps, use_of(few[i]).steps + 1000 * 50 / 8) << many[i].substr(0, 60);
  }
}

TEST(TemplateCharges, MemoryIsChargedBeforeItIsTaken) {
  TemplateLimits limits;
  limits.max_allocated = size_t{4} << 20;
  const std::string text = repeated("äx ", kSize);
  for (const std::string expression : {"x * 100",
                                       "(x ~ x) * 50",
                                       "x|replace('ä', 'b' * 1000)",
                                       "x.split()|list * 10",
                                       "x|list",
                                       "(x|tojson) * 80",
                                       "(x|urlencode) * 30",
                                       "(x|e) * 50",
                                       "x|center(10 ** 7)",
                                       "x.expandtabs() * 100",
                                       "x.join(['a'] * 100)",
                                       "([x] * 100)|join",
                                       "([x] * 100)|string",
                                       "([x] * 100)|tojson",
                                       "'%s%s' % (x * 40, x * 40)",
                                       "'{}{}'.format(x * 40, x * 40)",
                                       "[0] * 10 ** 6",
                                       "range(99999)|map('string')|list",
                                       "range(99999)|batch(1)|list",
                                       "dict(range(99998)|batch(2)|list)",
                                       "range(99999)|unique|list",
                                       "range(99999)|sort",
                                       "range(99999)|map(attribute='abcdefgh')|list",
                                       "[1]|sort(attribute=',' * 10 ** 6)",
                                       "[1]|map(attribute='.' * 10 ** 6)|list",
                                       "strftime_now('%9999999d')"}) {
    EXPECT_EQ(stopped_by("{% set y = " + expression + " %}", limits, {{"x", text}}),
              "max_allocated")
        << expression;
  }
}

TEST(TemplateCharges, EveryFixtureUsesASmallPartOfTheLimits) {
  const auto folder = testing::fixtures() / "templates";
  const Json fixture = read_json(folder / "chats.json");
  const TemplateLimits limits;
  size_t count = 0;
  for (const Json& expected : fixture["expected"]) {
    if (expected.contains("error")) {
      continue;
    }
    Json variables = fixture["chats"][expected["chat"].get<std::string>()];
    variables.update({{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    for (const char* absent : {"tools", "documents"}) {
      variables.emplace(absent, nullptr);
    }
    const auto name = expected["template"].get<std::string>();
    const TemplateUse used = use_of(read_file(folder / (name + ".jinja")), variables);
    EXPECT_LT(used.steps, limits.max_steps / 1000) << name;
    EXPECT_LT(used.allocated, limits.max_allocated / 1000) << name;
    ++count;
  }
  EXPECT_GE(count, 100U);
}

TEST(TemplateCharges, ALongChatFitsIntoTheLimits) {
  const auto folder = testing::fixtures() / "templates";
  Json messages = Json::array();
  for (int i = 0; i < 500; ++i) {
    messages.push_back({{"role", "user"}, {"content", repeated("Wörter, many of them.\n", 200)}});
    messages.push_back(
        {{"role", "assistant"}, {"content", "<think>" + repeated("hm ", 500) + "</think>Yes."}});
  }
  const Json variables = {
      {"messages", messages}, {"add_generation_prompt", true}, {"tools", nullptr}};
  const TemplateUse used = use_of(read_file(folder / "qwen3.jinja"), variables);  // of 3 MB
  EXPECT_LT(used.steps, TemplateLimits().max_steps / 4);
  EXPECT_LT(used.allocated, TemplateLimits().max_allocated / 4);
}

}  // namespace
}  // namespace reprise
