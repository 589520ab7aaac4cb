// Templates that once took minutes or gigabytes: each is stopped by a limit, on the way. None of
// these would end in time without it.
#include "jinja/template_use.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::repeated;
using testing::stopped_by;
using testing::use_of;

/// A hundredth of the real ones, so that a test tries many templates; what stops them is the same.
TemplateLimits small_limits() {
  TemplateLimits limits;
  limits.max_steps /= 100;
  limits.max_allocated /= 10;
  return limits;
}

/// ns.x and ns.y are equal, of 2^`times` parts each, made of `times` values.
std::string doubled(const std::string& open, const std::string& close, int times = 60) {
  const auto pair = [&](const std::string& name) {
    return "{% set ns." + name + " = " + open + "ns." + name + ", ns." + name + close + " %}";
  };
  return "{% set ns = namespace(x=" + open + "1, 2" + close + ", y=" + open + "1, 2" + close +
         ") %}{% for i in range(" + std::to_string(times) + ") %}" + pair("x") + pair("y") +
         "{% endfor %}";
}

TEST(HostileTemplate, ADoubledTupleIsStoppedWhereverItIsWalked) {
  for (const std::string expression : {"{ns.x: 1}",
                                       "{1: 2}[ns.x]",
                                       "{1: 2}.get(ns.x)",
                                       "ns.x in {1: 2}",
                                       "dict([(ns.x, 1)])",
                                       "ns.x is filter",
                                       "[ns.x]|unique|list",
                                       "ns.x == ns.y",
                                       "ns.x != ns.y",
                                       "ns.x < ns.y",
                                       "ns.x in [ns.y]",
                                       "[ns.x].index(ns.y)",
                                       "[ns.x].count(ns.y)",
                                       "[ns.x, ns.y]|sort",
                                       "[ns.x, ns.y]|min",
                                       "[ns.x, ns.y]|groupby(0)|list",
                                       "{'a': ns.x, 'b': ns.y}|dictsort(by='value')",
                                       "[{'a': ns.x}] == [{'a': ns.y}]",
                                       "ns.x|string",
                                       "ns.x ~ ''",
                                       "'%s' % [ns.x]",
                                       "'{!r}'.format(ns.x)",
                                       "[1][ns.x]",
                                       "ns.x|tojson",
                                       "ns.x|upper",
                                       "ns.x|join",
                                       "raise_exception(ns.x)"}) {
    EXPECT_EQ(stopped_by(doubled("(", ")") + "{% set y = " + expression + " %}", small_limits()),
              "max_steps")
        << expression;
  }
  for (const std::string expression :
       {"ns.x == ns.y", "ns.x < ns.y", "ns.x|tojson", "ns.x|string"}) {
    EXPECT_EQ(stopped_by(doubled("[", "]") + "{% set y = " + expression + " %}", small_limits()),
              "max_steps")
        << expression;
  }
}

TEST(HostileTemplate, ADoubledTupleIsStoppedByTheRealLimits) {
  const std::string hash = "{% set y = {ns.x: 1} %}";
  EXPECT_EQ(stopped_by(doubled("(", ")", 27) + hash), "max_steps");
  EXPECT_EQ(stopped_by(doubled("(", ")", 60) + "{% set y = ns.x == ns.y %}"), "max_steps");
}

TEST(HostileTemplate, TheWorkOnADoubledTupleIsThatOfTheLimit) {
  // 2^10 parts cost steps in proportion, so that 2^60 stop after as many as there are.
  const size_t small = use_of(doubled("(", ")", 10) + "{% set y = {ns.x: 1} %}").steps;
  const size_t large = use_of(doubled("(", ")", 11) + "{% set y = {ns.x: 1} %}").steps;
  EXPECT_GE(large - small, size_t{1} << 11U);
  EXPECT_LE(large, 3 * small);
}

TEST(HostileTemplate, WalksNoDeeperThanTheLimit) {
  // The value is as deep as may be, and is walked inside an expression.
  const std::string deep =
      "{% set ns = namespace(x=1, y=1) %}{% for i in range(255) %}"
      "{% set ns.x = (ns.x,) %}{% set ns.y = (ns.y,) %}{% endfor %}";
  for (const std::string expression :
       {"{ns.x: 1}", "ns.x == ns.y", "ns.x < ns.y", "ns.x|string", "ns.x|tojson"}) {
    EXPECT_EQ(stopped_by(deep + "{% set y = " + expression + " %}"), "max_depth") << expression;
  }
}

TEST(HostileTemplate, ALongTextInALoopIsStopped) {
  for (const std::string expression : {"t[400000]",
                                       "t[1:3]",
                                       "t|int",
                                       "t|float",
                                       "t|wordcount",
                                       "t is upper",
                                       "{t: 1}[t]",
                                       "(1)[t]",
                                       "t is sameas(t ~ '')",
                                       "t.isalpha()",
                                       "t.strip(t)",
                                       "t|title"}) {
    const std::string stop =
        stopped_by("{% set t = 'ä' * 50000 %}{% for i in range(99999) %}{% set x = " + expression +
                       " %}{% endfor %}",
                   small_limits());
    EXPECT_TRUE(stop == "max_steps" || stop == "max_allocated") << expression << ": " << stop;
  }
}

TEST(HostileTemplate, OutputThatIsCapturedAtEveryLevelIsCharged) {
  const std::string write = "{% set t = 'a' * 30000000 %}{% macro m(n) %}{{ t }}{% if n %}";
  const std::string end = "{% endif %}{% endmacro %}{% set y = m(40) %}";
  TemplateLimits limits;
  limits.max_steps = size_t{1} << 40U;
  EXPECT_EQ(stopped_by(write + "{% set x %}{{ m(n - 1) }}{% endset %}" + end, limits),
            "max_allocated");
  EXPECT_EQ(stopped_by(write + "{% set x = m(n - 1) %}" + end, limits), "max_allocated");
}

TEST(HostileTemplate, MessagesOfUndefinedValuesAreShort) {
  const std::string text =
      "{% set n = 'a' * 1000000 %}{% set l = [(1)[n], q[n] if false else 0] %}"
      "{% for i in range(100) %}{% set x = (1)[n] %}{% endfor %}{{ (1)[n].x }}";
  try {
    ChatTemplate(text).render(Json::object());
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_LT(std::string(error.what_without_backtrace()).size(), 5000U);
  }
  EXPECT_LT(use_of("{% set n = 'a' * 1000000 %}{% set l = [(1)[n], (1)[n], (1)[n]] %}").allocated,
            1'500'000U);
  const std::string raised = stopped_by("{{ raise_exception('xä' * 1000000) }}");
  EXPECT_LT(raised.size(), 5000U);
  EXPECT_TRUE(raised.ends_with("äx") || raised.ends_with("xä")) << "a whole character";
}

TEST(HostileTemplate, ManyNamesAreCharged) {
  std::string set;
  for (int i = 0; i < 12'000; ++i) {
    set += "{%set v" + std::to_string(i) + "=1%}";
  }
  EXPECT_EQ(stopped_by("{% for i in range(99999) %}" + set + "{% endfor %}"), "max_steps");
  EXPECT_EQ(stopped_by(set + "{% for i in range(99999) %}{% set q = v11999 %}{% endfor %}"),
            "max_steps");
  const std::string name = repeated("a", 100'000);
  EXPECT_EQ(stopped_by("{% for i in range(99999) %}{% set " + name + "a = 1 %}{% set " + name +
                       "b = 1 %}{% endfor %}"),
            "max_steps");
}

TEST(HostileTemplate, KeywordsAreComparedWithinTheLimit) {
  const std::string keys =
      "{% set p = 'a' * 10000 %}{% set ns = namespace(l=[]) %}"
      "{% for i in range(2000) %}{% set ns.l = ns.l + [(p ~ (10000 + i), 1)] %}{% endfor %}";
  EXPECT_EQ(stopped_by(keys + "{% macro m() %}{{ kwargs }}{% endmacro %}{{ m(**dict(ns.l)) }}"),
            "max_steps");
}

TEST(HostileTemplate, NamesTimesBranchesAreParsedInTime) {
  std::string text;
  for (int i = 0; i < 8'000; ++i) {
    text += "{%set v" + std::to_string(i) + "=1%}";
  }
  EXPECT_EQ(use_of(text + repeated("{%if 1%}{%endif%}", 6'000)).steps,
            use_of(text).steps + 2 * 6'000);
  EXPECT_GT(use_of(repeated("{%if 0%}", 200) + text + repeated("{%endif%}", 200)).steps, 0U);
  EXPECT_GT(use_of(text + "{%if 0%}" + repeated("{%elif 0%}", 9'000) + "{%endif%}").steps, 0U);
}

TEST(HostileTemplate, BranchesStillDecideWhichScopeANameBelongsTo) {
  const auto rendered = [](const std::string& text) {
    return ChatTemplate(text).render({{"a", 1}, {"b", 2}}).text;
  };
  EXPECT_EQ(
      rendered("{% for i in [1] %}{% if i == 2 %}{% set a = 9 %}{% endif %}{{ a }}{% endfor %}"),
      "1");
  EXPECT_EQ(
      rendered("{% for i in [1] %}{% set a = 9 %}{% if i %}{{ a }}{% endif %}{% endfor %}{{ a }}"),
      "91");
  EXPECT_EQ(rendered("{% for i in [1] %}{% if 0 %}{% if 0 %}{% set b = 3 %}{% endif %}{% elif 0 %}"
                     "{% set b = 4 %}{% else %}{{ b }}{% endif %}{{ b }}{% endfor %}"),
            "22");
  EXPECT_EQ(
      rendered(
          "{% for i in [1] %}{% if i %}{% set c = 3 %}{% endif %}{{ c }}{% endfor %}[{{ c }}]"),
      "3[]");
}

}  // namespace
}  // namespace reprise
