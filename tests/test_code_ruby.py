"""Definitions and references of Ruby: constants, open classes, members of classes and of instances, files of Zeitwerk, tests."""

from __future__ import annotations

import time

import pytest

from code_project import outline, project
from periplus.code import symbols_of

pytestmark = pytest.mark.quick

BLOG = {
    "lib/blog.rb": """require "json"
require "blog/post"
require_relative "blog/author"
module Blog
  VERSION = "1"
  def self.logger; end
end
""",
    "lib/blog/base.rb": "module Blog\n  class Base\n    def initialize(name); end\n    def save!; end\n    def self.find(id); end\n  end\nend\n",
    "lib/blog/named.rb": "module Blog\n  module Named\n    def full_name; end\n  end\nend\n",
    "lib/blog/author.rb": "class Blog::Author < Blog::Base\n  attr_reader :email\nend\n",
    "lib/blog/post.rb": """module Blog
  class Post < Base
    include Named
    attr_accessor :title
    belongs_to :author, class_name: "Blog::Author"
    before_save :check
    LIMIT = 3
    Point = Struct.new(:x, :y) do
      def far; x; end
    end
    def self.build(title)
      post = new(title)
      post.publish
      find(LIMIT)
      post
    end
    def build; self.class; end
    def initialize(title)
      super
      @store = Store.new
      @title = title
    end
    def publish
      @store.put(self)
      check
      full_name
      author.email
      Blog.logger.info
      Post.build(1).publish
      Post.new(1).build
      title.upcase
      puts format("x")
      list.each { |one, two = LIMIT| one.save!; two }
    end
    # @return [Blog::Author]
    def owner; end
    def owned; owner.save!; store.put(1); end
    def store; @store; end
    private
    def check; end
  end
end
""",
    "lib/blog/store.rb": "module Blog\n  class Store\n    def put(one); end\n  end\nend\n",
    "lib/blog/extra.rb": "module Blog\n  class Post\n    def extra; publish; Missing; end\n  end\nend\n",
    "app/models/admin/user.rb": "class Admin::User < ApplicationRecord\n  scope :active, -> { where(a: 1) }\nend\n",
    "app/models/user.rb": "class User < ApplicationRecord\nend\n",
    "config/console.rb": "module Rails\n  def self.extra; end\nend\n",
    "spec/helper.rb": "module Helper\n  def sign_in(user); end\nend\ndef boot; end\n",
    "spec/post_spec.rb": """require "helper"
describe Blog::Post do
  let(:post) { Blog::Post.new("a") }
  it "publishes a/b" do
    post.publish
    sign_in(post)
    expect(post).to eq 1
    boot
    Admin::User.active
    User
    Rails.extra
  end
end
""",
}
POST = "lib/blog/post.rb:Blog.Post"


@pytest.fixture(scope="module")
def blog():
    return project(BLOG)


@pytest.mark.parametrize(
    ("path", "line", "expected"),
    [
        ("lib/blog.rb", 1, {"json": "external"}),
        ("lib/blog.rb", 2, {"post": "lib/blog/post.rb proven"}),
        ("lib/blog.rb", 3, {"author": "lib/blog/author.rb proven"}),
        ("lib/blog/author.rb", 1, {"Base": "lib/blog/base.rb:Blog.Base proven"}),
        ("lib/blog/post.rb", 2, {"Base": "lib/blog/base.rb:Blog.Base proven"}),
        ("lib/blog/post.rb", 3, {"Named": "lib/blog/named.rb:Blog.Named proven"}),
        ("lib/blog/post.rb", 5, {"Author": "lib/blog/author.rb:Blog.Author proven"}),
        ("lib/blog/post.rb", 6, {"check": f"{POST}.check proven"}),
        ("lib/blog/post.rb", 9, {"x": f"{POST}.Point.x proven"}),
        ("lib/blog/post.rb", 12, {"initialize": f"{POST}.initialize proven"}),
        ("lib/blog/post.rb", 13, {"publish": f"{POST}.publish likely"}),
        ("lib/blog/post.rb", 14, {"find": "lib/blog/base.rb:Blog.Base.find proven", "LIMIT": f"{POST}.LIMIT proven"}),
        ("lib/blog/post.rb", 19, {"initialize": "lib/blog/base.rb:Blog.Base.initialize proven"}),
        ("lib/blog/post.rb", 20, {"Store": "lib/blog/store.rb:Blog.Store proven"}),
        ("lib/blog/post.rb", 24, {"put": "lib/blog/store.rb:Blog.Store.put likely"}),
        ("lib/blog/post.rb", 25, {"check": f"{POST}.check proven"}),
        ("lib/blog/post.rb", 26, {"full_name": "lib/blog/named.rb:Blog.Named.full_name proven"}),
        ("lib/blog/post.rb", 27, {"author": f"{POST}.author proven", "email": "lib/blog/author.rb:Blog.Author.email likely"}),
        ("lib/blog/post.rb", 28, {"Blog": "lib/blog/post.rb:Blog proven", "logger": "lib/blog.rb:Blog.logger proven", "info": "none"}),
        ("lib/blog/post.rb", 29, {"Post": f"{POST} proven", "build": f"{POST}.build proven"}),
        ("lib/blog/post.rb", 30, {"build": f"{POST}.build likely"}),
        ("lib/blog/post.rb", 31, {"title": f"{POST}.title proven"}),
        ("lib/blog/post.rb", 32, {"format": "external"}),
        ("lib/blog/post.rb", 33, {"LIMIT": f"{POST}.LIMIT proven", "save!": "lib/blog/base.rb:Blog.Base.save! named"}),
        ("lib/blog/post.rb", 37, {"save!": "lib/blog/base.rb:Blog.Base.save! likely", "put": "lib/blog/store.rb:Blog.Store.put likely"}),
        ("lib/blog/extra.rb", 3, {"publish": f"{POST}.publish proven", "Missing": "external"}),
        ("spec/post_spec.rb", 1, {"helper": "spec/helper.rb proven"}),
        ("spec/post_spec.rb", 2, {"Post": f"lib/blog/extra.rb:Blog.Post, {POST} proven"}),
        ("spec/post_spec.rb", 5, {"post": "spec/post_spec.rb:Blog::Post.post proven", "publish": f"{POST}.publish likely"}),
        ("spec/post_spec.rb", 6, {"sign_in": "spec/helper.rb:Helper.sign_in likely"}),
        ("spec/post_spec.rb", 7, {"expect": "external", "eq": "external"}),
        ("spec/post_spec.rb", 8, {"boot": "spec/helper.rb:boot likely"}),
        ("spec/post_spec.rb", 9, {"User": "app/models/admin/user.rb:Admin.User likely"}),
        ("spec/post_spec.rb", 9, {"active": "app/models/admin/user.rb:Admin.User.active likely"}),
        ("spec/post_spec.rb", 10, {"User": "app/models/user.rb:User proven"}),
        ("spec/post_spec.rb", 11, {"Rails": "config/console.rb:Rails likely"}),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_name_leads_to_its_definition(blog, path, line, expected):
    answers = blog.answers(path, line)
    assert {name: answers.get(name) for name in expected} == expected


def test_members_of_a_class_and_of_its_instances_are_told_apart(blog):
    facts = blog.sources.file("lib/blog/post.rb").facts
    definitions = facts.definitions()
    lines = {}
    for one in facts.references():
        if one.line in (29, 30) and facts.final_name(facts.targets[one.target]) == "build":
            answer = blog.resolver.resolve("lib/blog/post.rb", facts.targets[one.target])
            lines[one.line] = [definitions[entity.symbol].line for entity in answer.found]
    assert lines == {29: [11], 30: [17]}


def test_definitions_of_all_kinds():
    text = """module Foo::Bar
  class Baz < Qux
    attr_accessor :name, :age
    LIMIT = 3
    Error = Class.new(StandardError)
    alias other name
    alias_method :third, :name
    define_method(:dyn) { |x| x }
    delegate :size, :count, to: :list
    class << self
      attr_reader :conf
      def make(a) = new(a)
      private
      def hidden; end
    end
    def name=(v); @name = v; end
    def ==(o); end
    def [](i); end
    private def inline; end
    protected
    def guarded; end
    public
    def open?; end
  end
end
def top; end
task build: :env do |t|
  x = 1
end
namespace :db do
  task :seed
end
"""
    assert outline("Rakefile", text) == [
        "module Foo.Bar 1", "class Foo.Bar.Baz 2", "property Foo.Bar.Baz.name 3", "property Foo.Bar.Baz.age 3",
        "constant Foo.Bar.Baz.LIMIT 4", "class Foo.Bar.Baz.Error 5", "method Foo.Bar.Baz.other 6", "method Foo.Bar.Baz.third 7",
        "method Foo.Bar.Baz.dyn 8", "method Foo.Bar.Baz.size 9", "method Foo.Bar.Baz.count 9", "property Foo.Bar.Baz.conf 11",
        "function Foo.Bar.Baz.make 12", "function Foo.Bar.Baz.hidden 14 -", "method Foo.Bar.Baz.name= 16", "method Foo.Bar.Baz.== 17",
        "method Foo.Bar.Baz.[] 18", "method Foo.Bar.Baz.inline 19 -", "method Foo.Bar.Baz.guarded 21 -", "method Foo.Bar.Baz.open? 23",
        "function top 26", "value build 27", "module db 30", "value db.seed 31",
    ]  # fmt: skip


def test_a_constant_with_leading_colons_is_none_of_the_classes_around():
    found = project(
        {
            "lib/logger.rb": "class Logger\n  def info; end\nend\n",
            "lib/app/logger.rb": "module App\n  class Logger < ::Logger\n    def f; info; ::File.open; Logger; end\n  end\nend\n",
        }
    )
    assert found.answers("lib/app/logger.rb", 2) == {"Logger": "lib/logger.rb:Logger proven"}
    assert found.answers("lib/app/logger.rb", 3) == {
        "info": "lib/logger.rb:Logger.info proven",
        "Logger": "lib/app/logger.rb:App.Logger proven",
    }


def test_what_includes_a_module_has_its_class_methods_and_not_its_own_functions():
    found = project(
        {
            "lib/job.rb": (
                "module Job\n  def self.jobs; end\n  def run; end\n  def self.alone; end\n  module ClassMethods\n    def jobs; end\n  end\nend\n"
            ),
            "lib/mail_job.rb": "class MailJob\n  include Job\nend\nMailJob.jobs\nMailJob.new.run\nJob.jobs\nMailJob.alone\n",
        }
    )
    assert found.answers("lib/mail_job.rb", 4)["jobs"] == "lib/job.rb:Job.ClassMethods.jobs proven"
    assert found.answers("lib/mail_job.rb", 5)["run"] == "lib/job.rb:Job.run likely"
    assert found.answers("lib/mail_job.rb", 6)["jobs"] == "lib/job.rb:Job.jobs proven"
    assert found.answers("lib/mail_job.rb", 7)["alone"] == "lib/job.rb:Job.alone likely"


def test_tests_of_rspec_and_minitest():
    text = (
        'RSpec.describe User do\n  context "when a/b" do\n    let(:one) { 1 }\n    it "works" do\n    end\n    it { is_expected.to be }\n'
        '  end\nend\nclass UserTest < Minitest::Test\n  def test_it; end\n  test "words" do\n  end\nend\n'
    )
    assert outline("a_spec.rb", text) == [
        "test User 1 test", "test User.when a/b 2 test", "value User.when a/b.one 3", "test User.when a/b.works 4 test",
        "class UserTest 9 test", "method UserTest.test_it 10 test", "test UserTest.words 11 test",
    ]  # fmt: skip


def test_local_variables_and_names_of_patterns_are_no_references():
    text = (
        "def f(a, b = 1, *c, d:, e: 2, **g, &h)\n  a; b; c; d; e; g; h\n  i, (j, k) = a\n  l ||= i\n  [j].each { |m, (n, o)| m; n; o; k; l }\n"
        "  ->(q) { q }\n  for r in a do r end\n  begin; rescue => s; s; end\nend\ncase 1\nin {name: String => n, age:} then n + age\nend\n"
    )
    found = project({"a.rb": text})
    assert [found.answers("a.rb", line) for line in range(1, 13)] == [{}] * 12


@pytest.mark.parametrize("path", ["Rakefile", "Gemfile", "x.gemspec", "a.rake", "config.ru"])
def test_files_of_ruby_by_their_names(path):
    assert [one.name for one in symbols_of(path, b"def f; end\n").found] == ["f"]


@pytest.mark.parametrize(
    "text",
    ["class", "class Foo::", "def", "attr_accessor", "attr_accessor :", "describe 'x' do", "require", "class A < A\nend\n",
     "module A; include A; include B; end; module B; include A; def f; g; end; end", "def f\n" * 2_000, "a." * 5_000 + "b",
     "private\n" * 5_000, "class A\n" + "  private def x; end\n" * 3_000 + "end", "Struct.new", "A = Struct.new", "alias a b", "super",
     "belongs_to :x, class_name:", "x = <<~A\n #{f" * 300, "[" * 5_000, "task", "namespace :a", "let(:a)"],
    ids=lambda text: f"{text[:30]!r}",
)  # fmt: skip
def test_a_hostile_file_is_answered_in_time(text):
    begun = time.process_time()
    symbols_of("a.rb", text.encode())
    found = project({"a.rb": text})
    for line in range(1, 4):
        found.answers("a.rb", line)
    assert time.process_time() - begun < 10
