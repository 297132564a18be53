"""Small templates that pin down the engine: each is rendered by real jinja2 for the goldens."""

CONTEXT = {
    "name": "World",
    "empty": "",
    "text": "  Hello, World!\n",
    "unicode": "Grüße, 世界 👋🏽 ǅ",
    "n": 7,
    "neg": -7,
    "x": 2.5,
    "big": 9007199254740993,
    "yes": True,
    "no": False,
    "nothing": None,
    "numbers": [3, 1, 2],
    "words": ["apple", "Banana", "cherry", "apple"],
    "nested": [[1, 2], [3, [4, 5]]],
    "user": {"name": "Ann", "age": 30, "tags": ["a", "b"], "items": "own", "address": {"city": "Köln"}},
    "users": [
        {"name": "Ann", "age": 30, "city": "Rome"},
        {"name": "bob", "age": 25, "city": "oslo"},
        {"name": "Cid", "age": 30, "city": "Oslo"},
        {"name": "dan", "city": "rome"},
    ],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi <|im_end|> there"},
        {"role": "assistant", "content": "Hello", "tool_calls": []},
    ],
    "quote": "it's \"quoted\" \\ back\tslash\n",
    "control": "\u0000\u0001\u007f\u0080\u00a0\u200b\ue000\ufeff",
    "html": "<b>&amp; 'x'</b>",
    "fmt": "%s and %d",
}

EXPRESSIONS = """
1 + 2 * 3
(1 + 2) * 3
2 ** 3 ** 2
-2 ** 2
7 / 2
7 // 2
-7 // 2
7 // -2
-7 % 3
7 % -3
7.5 % 2
-7.5 % 2
7.5 // 2
-7.5 // 2
2 ** -1
2 ** 0.5
1e3
1_000
0x1F
0b101
0o17
1.5e-7
1e16
1e15
123456789012345678.0
0.1 + 0.2
1e22
1e-5
0.0001
100.0
-0.0
1 / 3
5 % 0
1 / 0
1.0 / 0
1 // 0.0
true + 1
true
none
[1, 2, 3]
[1, 'a', none, true, 1.0, [], {}, ()]
(1,)
()
(1, 2)
{'a': 1, 'b': [1, 2]}
{1: 'x', 'k': none, (1, 2): 3}
{'a': 1}['a']
{'a': 1, 'a': 2}
{[1]: 2}
'a' 'b' "c"
'it\\'s'
"tab\\tnew\\nline"
'\\x41\\u00e9\\U0001f600\\101'
'\\q\\é'
'a' + 'b'
'a' ~ 1 ~ none ~ true
'ab' * 3
3 * 'ab'
'ab' * -1
[1] * 3
[1] + [2]
(1,) + (2,)
[1] + (2,)
'a' + 1
1 + 'a'
'a' - 'b'
none + 1
{} + {}
1 < 2 < 3
1 < 2 > 3
1 == 1.0
1 == true
'a' < 'b'
'a' < 1
[1, 2] < [1, 3]
[1, 2] == [1, 2]
[1] == (1,)
(1, 2) < (1, 2, 0)
{'a': 1} == {'a': 1.0}
none == none
none < 1
big == 9007199254740993.0
big < 9007199254740993.0
'a' in 'abc'
'' in ''
1 in [1, 2]
1.0 in [1, 2]
'a' in {'a': 1}
1 in 'abc'
'x' in 5
'x' not in 'abc'
[1] in {'a': 1}
not true
not not 0
1 and 2
0 and 2
0 or 'x'
'' or none or []
1 and 0 or 3
not 1 == 2
'yes' if n > 5 else 'no'
'yes' if n > 50
('yes' if n > 50) is defined
'a' if no else 'b' if no else 'c'
n
neg
x
big
-n
+n
-x
- - n
-name
+none
name
missing
missing is defined
missing.attr
missing['a']
missing + 1
1 + missing
missing ~ 'x'
missing|length
missing == missing
missing == none
missing < 1
missing in [1]
1 in missing
missing()
-missing
missing[1:2]
[missing]
[missing]|join('-')
not missing
missing or 'x'
user.name
user['name']
user.missing
user.missing.more
user['missing']['more']
user['items']
user.address.city
user.get('name')
user.get('zzz')
user.get('zzz', 5)
user.keys()
user.values()|list
user.items()|list
user.items()|length
user.keys()|list|sort
user.pop('name')
user.update({'a': 1})
user.update
user.clear
user.__class__
user.__class__.__mro__
user.nope.__class__
''.__class__.__mro__[1]
name.__len__
name._private
user|attr('name')
numbers[0]
numbers[-1]
numbers[5]
numbers[5].x
numbers['a']
numbers.0
numbers.append(4)
numbers.append
numbers.pop()
numbers.index(2)
numbers.index(9)
numbers.count(1)
numbers[1:]
numbers[::-1]
numbers[:2]
numbers[-2:]
numbers[::2]
numbers[5:]
numbers[::0]
numbers['a':]
numbers[none:none]
(1, 2, 3)[1:]
name[0]
name[-1]
name[1:3]
name[::-1]
name[10]
name[10:]
unicode[0:5]
unicode[7:9]
unicode[-1]
unicode|length
unicode[::-1]
unicode.upper()
unicode.lower()
unicode|title
unicode.title()
'ﬁn straße ŉ'.upper()
'ﬁn straße'.capitalize()
'ΑΣ ΣΑΣ'.lower()
'İ'.lower()
none[0]
none.x
(5)['a']
n[1:]
user[1:]
user[[1]]
user[missing]
range(5)
range(5)|list
range(2, 8, 3)|list
range(5, 0, -2)|list
range(5)[1:3]
range(5)[-1]
range(5)|length
range(0)|list
range()
range(1, 2, 0)
range(1.5)
range(100001)
range(3) == range(0, 3)
range(3) == [0, 1, 2]
2 in range(3)
dict(a=1, b=2)
dict([('a', 1)])
dict({'a': 1}, b=2)
dict(5)
namespace(a=1).a
namespace(a=1)
namespace().x
namespace(a=1)['a']
namespace(_a=1)
joiner(', ')()
cycler('a', 'b').next()
cycler()
text.strip()
text.lstrip()
text.rstrip()
'xxaxx'.strip('x')
'xyaxy'.lstrip('yx')
'xyaxy'.rstrip('yx')
'abc'.strip('')
text.strip(none)
'abc'.strip(1)
'a,b,,c'.split(',')
'a,b,,c'.split(',', 2)
'a,b,,c'.rsplit(',', 1)
' a  b c '.split()
' a  b c '.split(none, 1)
' a  b c '.rsplit(none, 1)
' a b '.split(none, 0)
' a b '.rsplit(none, 0)
''.split()
''.split(',')
'abc'.split('')
'a,b'.split(sep=',', maxsplit=1)
'aXbXc'.partition('X')
'aXbXc'.rpartition('X')
'abc'.partition('X')
'abc'.rpartition('X')
'a\\nb\\r\\nc\\x0bd'.splitlines()
'a\\nb\\n'.splitlines(true)
'Hello'.startswith('He')
'Hello'.startswith(('x', 'He'))
'Hello'.startswith(['x'])
'Hello'.endswith('lo')
'Hello'.endswith('l', 0, 4)
'Hello'.startswith('e', 1)
'Hello'.startswith('', 9)
'Hello'.find('l')
'Hello'.find('z')
'Hello'.rfind('l')
'Hello'.find('l', -2)
'Hello'.index('z')
'世界世'.find('世', 1)
'banana'.count('an')
'banana'.count('')
'banana'.count('a', 2)
'banana'.replace('a', 'o')
'banana'.replace('a', 'o', 2)
'abc'.replace('', '-')
'abc'.replace('', '-', 2)
'世界'.replace('', '-')
'abc'.replace('b')
','.join(['a', 'b'])
','.join('abc')
','.join([1])
','.join(5)
'%s is %d' % ('x', 5)
'%s' % 'x'
'%s' % [1, 2]
'%5d|%-5d|%05d|%+d' % (1, 2, 3, 4)
'%.2f|%8.3f|%e|%g' % (1.5, 2.25, 12345.678, 0.0001)
'%x|%X|%o|%#x' % (255, 255, 8, 255)
'%c%c' % (65, 'b')
'%r' % 'a'
'%5s|%-5s|%.2s' % ('a', 'b', 'cde')
'%(a)s-%(b)d' % {'a': 1, 'b': 2}
'%%' % ()
'%s' % ()
'%s' % (1, 2)
'%d' % 'x'
'%z' % 1
'%d' % 3.9
'%*d' % (5, 1)
'{} {}'.format(1, 'a')
'{1} {0}'.format(1, 'a')
'{a} {b[0]} {c.name}'.format(a=1, b=[2], c=user)
'{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd')
'{:5d}|{:05d}|{:+d}|{:,}'.format(1, 2, 3, 1234567)
'{:.2f}|{:8.3f}|{:e}|{:.1%}'.format(1.5, 2.25, 12345.678, 0.256)
'{:x}|{:#x}|{:b}|{:o}|{:X}'.format(255, 255, 5, 8, 255)
'{!r}|{!s}'.format('a', 'b')
'{{}}'.format()
'{:{w}}|'.format('a', w=4)
'{}'.format()
'{'.format(1)
'{0.__class__}'.format(1)
'{:d}'.format('a')
'{:s}'.format(1)
'{:g}|{:g}|{:g}'.format(1.0, 1e10, 0.1)
'{:.3}|{:.3}'.format(3.14159, 'abcdef')
'{}'.format(none)
'abc'.zfill(5)
'-5'.zfill(5)
'a'.center(5) ~ '|'
'ab'.center(5, '*')
'a'.ljust(3, '-')
'a'.rjust(3, '-')
'a'.center(5, 'xy')
'abc'.isalpha()
'abc1'.isalnum()
'123'.isdigit()
'²'.isdigit()
'²'.isdecimal()
'½'.isnumeric()
''.isdigit()
' \\t'.isspace()
'ABC'.isupper()
'abc1'.islower()
'Abc Def'.istitle()
'a_b1'.isidentifier()
'a b'.isprintable()
'é'.isascii()
'aBc'.swapcase()
'hello world'.title()
"they're bill's".title()
'hELLO'.capitalize()
'a\\tb'.expandtabs(4)
'abc'.removeprefix('a')
'abc'.removesuffix('bc')
'Straße'.casefold()
'abc'.nothing()
'abc'.nothing
name|upper
name|lower
name|capitalize
name|reverse
numbers|reverse|list
user|reverse|list
5|reverse
missing|reverse|list
'hello world-foo (bar) [baz]'|title
text|trim
'xxaxx'|trim('x')
5|trim
none|trim
[1, 2]|trim
name|center(11) ~ '|'
name|length
numbers|length
user|length
5|length
none|length
numbers|count
numbers|first
numbers|last
[]|first
[]|last
'abc'|first
'abc'|last
user|first
(numbers|map('string'))|last
numbers|sort
numbers|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
users|sort(attribute='name')|map(attribute='name')|list
users[:3]|sort(attribute='age,name')|map(attribute='name')|list
[1, 'a']|sort
[none, 1]|sort
[[2, 1], [1, 2]]|sort
users|sort(attribute='age')
numbers|sum
users|sum(attribute='age')
users[:3]|sum(attribute='age')
[0.1, 0.2]|sum
['a']|sum
[[1], [2]]|sum(start=[])
numbers|min
numbers|max
words|min
words|max
[]|min
users[:3]|max(attribute='age')
[1, 'a']|max
words|unique|list
words|unique(true)|list
[1, 1.0, true, '1']|unique|list
[[1]]|unique|list
numbers|join(', ')
words|join
users|join(', ', attribute='name')
[1, none, true, 'a']|join('-')
5|join
'abc'|join('-')
name|list
user|list
5|list
none|list
user|items|list
missing|items|list
5|items|list
user|dictsort
{'b': 1, 'A': 2}|dictsort
{'b': 1, 'A': 2}|dictsort(true)
{'b': 1, 'A': 2}|dictsort(by='value')
{'b': 1, 'A': 2}|dictsort(reverse=true)
{'b': 1}|dictsort(by='x')
users|groupby('city')
users|groupby('city', case_sensitive=true)
users|groupby('age', default=0)
users|groupby('city')|map(attribute='grouper')|list
(users|groupby('city')|first).list|length
range(7)|batch(3)|list
range(7)|batch(3, 'x')|list
range(7)|slice(3)|list
range(7)|slice(3, 'x')|list
range(7)|slice(0)|list
numbers|map('string')|list
words|map('upper')|list
words|map('replace', 'a', 'o')|list
users|map(attribute='age')|list
users|map(attribute='age', default=0)|list
users|map(attribute='name.0')|list
numbers|map('nosuch')|list
numbers|map()|list
[]|map('nosuch')|list
none|map('upper')|list
numbers|select('odd')|list
numbers|select('greaterthan', 1)|list
[0, 1, '', 'a']|select|list
numbers|reject('odd')|list
[0, 1]|reject|list
users|selectattr('age')|map(attribute='name')|list
users|selectattr('age', 'defined')|map(attribute='name')|list
users|selectattr('age', 'equalto', 30)|map(attribute='name')|list
users|selectattr('age', '==', 30)|list|length
users|rejectattr('age', 'defined')|map(attribute='name')|list
users|rejectattr('age')|map(attribute='name')|list
users|selectattr()|list
numbers|select('nosuch')|list
missing|default('d')
missing|d('d')
empty|default('d')
empty|default('d', true)
none|default('d')
user.zzz|default({})
missing.x|default('d')
missing|default
'42'|int
'42.9'|int
' 42 '|int
'4_2'|int
'x'|int
'x'|int(5)
'0x1F'|int(0, 16)
'1F'|int(base=16)
'101'|int(base=2)
'0b11'|int(base=0)
3.9|int
-3.9|int
none|int
none|int(7)
true|int
[1]|int(3)
''|int
'1e3'|int
'3.5'|float
'x'|float
'x'|float(1.5)
'inf'|float
'-Infinity'|float
'nan'|float
'1e400'|float
none|float
5|float
'1_0.5'|float
2.5|round
3.5|round
2.675|round(2)
42.55|round(1, 'floor')
42.55|round(1, 'ceil')
-2.5|round
1234|round(-2)
1250|round(-2)
1350|round(-2)
1234.5|round(-2)
5|round
true|round
'a'|round
5|round(1, 'x')
0.5|round|int
-5|abs
-5.5|abs
'a'|abs
missing|abs
html|e
html|escape
html|safe
html|striptags
'<p>a  b</p> <!-- x --> c &lt; d'|striptags
'a b/c?d=é&'|urlencode
{'a b': 'c d/', 'e': 1}|urlencode
[('a', 1)]|urlencode
5|urlencode
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, true)
'foo bar baz qux'|truncate(11)
'foo bar baz qux'|truncate(11, false, '...', 0)
'foo bar baz qux'|truncate(2)
'世界 hello world foo'|truncate(8, false, '…', 0)
'one two_three four-five'|wordcount
'a\\nb\\n\\nc'|indent
'a\\nb\\n\\nc'|indent(2, true)
'a\\nb\\n\\nc'|indent(2, true, true)
'a\\nb'|indent('> ', first=true)
5|indent
''|indent
fmt|format('a', 1)
'%(a)s'|format(a=1)
'%s'|format
'abc'|replace('b', 'X')
'aaa'|replace('a', 'b', 2)
5|replace(5, 6)
none|string
5|string
[1, 'a']|string
user|string
user|tojson
user|tojson(indent=2)
[]|tojson(indent=2)
{}|tojson(indent=2)
nested|tojson(indent=1)
nested|tojson(separators=(',', ':'))
user|tojson(sort_keys=true)
unicode|tojson
unicode|tojson(ensure_ascii=true)
quote|tojson
control|tojson
[1.0, 1e100, 0.1, -0.0, 1, true, none]|tojson
{1: 'a', 1.5: 'b', none: 'c', true: 'd'}|tojson
{(1, 2): 3}|tojson
missing|tojson
user.missing|tojson
('inf'|float)|tojson
(1, 2)|tojson
range(3)|tojson
(numbers|map('string'))|tojson
namespace()|tojson
user|tojson(indent='--')
quote
[quote]
[control]
[unicode]
["it's"]
['a"b']
["it's \\"x\\""]
nested
user
messages
user == user
users[0] == users[0]
users[0] == users[1]
1 is odd
2 is even
7 is divisibleby 7
7 is divisibleby(2)
7 is divisibleby
'a' is string
5 is number
true is number
5 is integer
true is integer
5.0 is float
5.0 is integer
none is none
false is false
true is true
1 is true
true is boolean
user is mapping
numbers is sequence
name is sequence
user is sequence
5 is sequence
numbers is iterable
5 is iterable
missing is iterable
missing is sequence
user.items() is sequence
user.items() is iterable
range is callable
user is callable
missing is callable
'ABC' is upper
'abc' is lower
5 is upper
1 is eq 1
1 is equalto(1)
1 is ne 2
1 is lt 2
1 is le 1
2 is gt 1
2 is ge 2
1 is in [1, 2]
1 is not in [1, 2]
none is sameas none
true is sameas true
1 is sameas true
'a' is escaped
'upper' is filter
'nosuch' is filter
'odd' is test
1 is nosuch
1 is odd is even
1 is not odd
missing is not defined
missing is undefined
user.zzz is defined and user.zzz
'a' is odd
name is string and name
5 is string or 'x'
'x'|nosuch
nosuch(1)
name()
5()
none()
user.get()
user.get('a', 'b', 'c')
user.get(*['name'])
user.get(**{'key': 'name'})
range(*[1, 4])|list
dict(**{'a': 1})
dict(**5)
'{a}'.format(**{'a': 1})
user.get([1])
'a' 'b'|upper
name[0]|lower
-5|abs
(-5)|abs
5|string|length
name.upper().lower()[1:]
name|upper|lower
[1, 2,]
{'a': 1,}
range(3,)|list
(1, 2,)
1, 2
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y, %H:%M:%S %A %j %p %I %% %y %B')
strftime_now('%z|%Z|%f|%e|%F|%T')
strftime_now(5)
raise_exception('boom')
raise_exception('it is "' ~ name ~ '"')
raise_exception(user)
9223372036854775807
-9223372036854775807 - 1
"a"|e ~ 'b'
'a,b'.split(',')|map('upper')|join('+')
messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|first
messages[-1].role == 'assistant' and not messages[-1].tool_calls
messages|length - 1
messages[0]['role'] != 'system'
messages|map(attribute='role')|unique|join(',')
loop
loop.index
caller()
varargs
""".strip("\n").split("\n")

STATEMENTS = [
    "",
    "\n",
    "plain\n",
    "plain\n\n",
    "a\r\nb\rc",
    "{{ 1 }}\n{{ 2 }}\n",
    "{# comment #}x",
    "{# comment #}\nx",
    "{# multi\nline #}\n\nx",
    "a {#- c -#} b",
    "a\n  {# c #}\n  b",
    "a {#+ c +#}\n b",
    "{# unclosed",
    "{{ unclosed",
    "{% unclosed",
    "{{ 1 }",
    "{{ }}",
    "{% %}",
    "{{ 1 2 }}",
    "{{ (1 }}",
    "{{ 1) }}",
    "{{ [1, 2 }}",
    "{{ {'a' 1} }}",
    "{{ 'abc }}",
    "{{ a. }}",
    "{{ a.b.c }}",
    "{{ ! }}",
    "{{ 007 }}",
    "{{ 1__0 }}",
    "{{ $ }}",
    "{{ 'a' if }}",
    "{{ '\\x4' }}",
    "{{ '\\N{BULLET' }}",
    "}} %} #}",
    "{ { } }",
    "{{ '{{' }} {{ '%}' }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{{'a': 1}}}",
    "  {% if yes %}\n  x\n  {% endif %}\n  y",
    "  {%+ if yes %}\n  x\n  {%+ endif %}\n  y",
    "a {%- if yes -%} b {%- endif -%} c",
    "a\n\n  {%- if yes %}\n b\n {%- endif %}\n c",
    "a\n{% if yes +%}\nb\n{% endif +%}\nc",
    "x {% if yes %} y {% endif %} z",
    "{{- ' a ' -}}  b",
    "a  {{- 'b' }}  c",
    "a {{+ 'b' }} c",
    "a\n\t{{ 'b' }}\n",
    "a\u00a0\n{%- if yes %}b{% endif %}",
    "{% raw %}{{ x }} {% if %}{% endraw %}",
    "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\nb",
    "{%- raw -%}  {{ x }}  {%- endraw -%}  z",
    "{% raw %}unclosed",
    "{% raw +%}x{% endraw %}",
    "{% if n > 5 %}A{% elif n > 3 %}B{% else %}C{% endif %}",
    "{% if no %}A{% elif n > 3 %}B{% else %}C{% endif %}",
    "{% if no %}A{% elif no %}B{% else %}C{% endif %}",
    "{% if no %}A{% endif %}",
    "{% if %}A{% endif %}",
    "{% if yes %}A",
    "{% if yes %}A{% endfor %}",
    "{% endif %}",
    "{% else %}",
    "{% if yes: %}A{% endif %}",
    "{% if a = 1 %}{% endif %}",
    "{% for i in numbers %}{{ i }},{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}",
    "{% for i in numbers %}x{% else %}none{% endfor %}",
    "{% for i in missing %}x{% else %}none{% endfor %}",
    "{% for i in 5 %}x{% endfor %}",
    "{% for i in none %}x{% endfor %}",
    "{% for c in 'a世b' %}[{{ c }}]{% endfor %}",
    "{% for k in user %}{{ k }},{% endfor %}",
    "{% for k, v in user.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in user|dictsort %}{{ k }};{% endfor %}",
    "{% for k, v in user|items %}{{ k }};{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }},{% endfor %}",
    "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}x{% endfor %}",
    "{% for a, b in [[1]] %}x{% endfor %}",
    "{% for a, b in [1] %}x{% endfor %}",
    "{% for a, b in ['xy'] %}{{ b }}{{ a }}{% endfor %}",
    "{% for i in numbers if i > 1 %}{{ i }}/{{ loop.index }}/{{ loop.length }},{% endfor %}",
    "{% for i in numbers if i > 9 %}x{% else %}none{% endfor %}",
    "{% for i in numbers if i > loop.index %}x{% endfor %}",
    "{% for i in range(5) if i is odd %}{{ i }}{{ loop.last }}{% endfor %}",
    "{% for i in numbers %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for i in numbers %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}",
    "{% for i in numbers %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for i in numbers %}{{ loop.nextitem.x }}{% endfor %}",
    "{% for i in numbers %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for i in numbers %}{{ loop.cycle() }}{% endfor %}",
    "{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }} {% endfor %}",
    "{% for i in [1, 2] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% for i in [1, 2] %}{{ loop }}{% endfor %}",
    "{% for i in [1, 2] %}{{ loop.nothing }}|{% endfor %}",
    "{% for i in [1, 2] %}{{ loop.nothing.x }}|{% endfor %}",
    "{% for i in [1, 2] %}{{ loop(i) }}{% endfor %}",
    "{% for i in [1, 2] %}{{ loop['index'] }}{% endfor %}",
    "{% for i in [1, 2] %}{% for j in [3, 4] %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }};{% endfor %}",
    "{% for i in [1, 2] %}{% set outer = loop %}{% for j in [3, 4] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [1, 2] %}{% break %}{% else %}E{% endfor %}",
    "{% for i in [1, 2] %}{% continue %}{% else %}E{% endfor %}",
    "{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{% else %}E{% endfor %}",
    "{% break %}",
    "{% continue %}",
    "{% for i in [1] %}{% else %}{% break %}{% endfor %}",
    "{% for i in [1, 2] %}{% for j in [1, 2] %}{% break %}{% endfor %}{{ i }}{% endfor %}",
    "{% for x in nested recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}",
    "{% for x in [1] recursive %}{{ x }}{% else %}E{% endfor %}",
    "{% for i in numbers %}{% set n = i %}{% endfor %}{{ n }}",
    "{% set total = 0 %}{% for i in numbers %}{% set total = total + i %}{{ total }} {% endfor %}{{ total }}",
    "{% set ns = namespace(total=0) %}{% for i in numbers %}{% set ns.total = ns.total + i %}{% endfor %}{{ ns.total }}",
    "{% set ns = namespace(a=1) %}{% set ns.b = 2 %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.c is defined }}",
    "{% set ns = namespace(a=1) %}{{ ns.c.d }}",
    "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% set ns = {} %}{% set ns.a = 1 %}",
    "{% set missing.a = 1 %}",
    "{% set ns = namespace(x=1, y=2) %}{% set ns.x, ns.y = ns.y, ns.x %}{{ ns.x }}{{ ns.y }}",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace() %}{% set ns.self = ns %}{{ ns.self.self is defined }}",
    "{% set a = 1 %}{{ a }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set (a, b) = [1, 2] %}{{ a }}{{ b }}",
    "{% set a, b = 1 %}",
    "{% set a, b = [1, 2, 3] %}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set a %}x{{ n }}y{% endset %}[{{ a }}]",
    "{% set a | upper %}x{{ name }}y{% endset %}[{{ a }}]",
    "{% set a %}{% set b = 1 %}{% endset %}{{ b }}",
    "{% set true = 1 %}",
    "{% set 5 = 1 %}",
    "{% set a.b.c = 1 %}",
    "{% set a['b'] = 1 %}",
    "{% set a = 1",
    "{% set a %}",
    "{% set %}",
    "{% set loop = 1 %}{{ loop }}",
    "{% for i in [1] %}{% set loop = 1 %}{% endfor %}",
    "{% for loop in [1] %}{% endfor %}",
    "{% if yes %}{% set q = 1 %}{% endif %}{{ q }}",
    "{% if no %}{% set q = 1 %}{% endif %}{{ q is defined }}",
    "{% if no %}{% set n = 1 %}{% endif %}{{ n }}",
    "{{ q }}{% set q = 1 %}{{ q }}",
    "{% set n = n + 1 %}{{ n }}",
    "{% for i in [1, 2] %}{{ q is defined }}{% set q = i %}{{ q }}{% endfor %}",
    "{% macro m() %}x{% endmacro %}{{ m() }}",
    "{% macro m(a, b=2, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, c=3) }}|{{ m(b=1, a=5) }}|{{ m() }}",
    "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}",
    "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}",
    "{% macro m(a, b=c) %}{{ b }}{% endmacro %}{% set c = 9 %}{{ m(3) }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m(n) %}{% if n > 0 %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(4) }}",
    "{% macro m() %}{{ n }}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}",
    "{% macro m() %}{{ late }}{% endmacro %}{% set late = 3 %}{{ m() }}",
    "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m() %}{{ caller() }}!{% endmacro %}{% call m() %}body {{ n }}{% endcall %}",
    "{% macro m() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}-{{ b }}{% endcall %}",
    "{% macro m() %}{{ caller(1) }}{% endmacro %}{% call(a, b=5) m() %}{{ a }}-{{ b }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}{% endcall %}",
    "{% call n %}{% endcall %}",
    "{% call m()|upper %}{% endcall %}",
    "{% macro m(caller) %}{{ caller() }}{% endmacro %}",
    "{% macro m() %}x{% endmacro %}{{ m }}{{ m.name }}",
    "{% macro m() %} x {% endmacro %}{{ m()|trim|upper }}{{ m() is string }}",
    "{% macro m %}{% endmacro %}",
    "{% macro 5() %}{% endmacro %}",
    "{% macro m() %}{% break %}{% endmacro %}",
    "{% filter upper %}a{{ name }}{% endfilter %}",
    "{% filter upper|replace('A', 'x') %}a{{ name }}{% endfilter %}",
    "{% filter nosuch %}{% endfilter %}",
    "{% filter trim %}{% set z = 1 %} a {% endfilter %}{{ z }}",
    "{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with a=1, b=a %}{{ b }}{% endwith %}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
    "{% with n = n + 1 %}{{ n }}{% endwith %}{{ n }}",
    "{% generation %}a{{ n }}{% endgeneration %}",
    "a\n{% generation %}\nb\n{% endgeneration %}\nc",
    "{% generation %}{% set q = 1 %}{% endgeneration %}{{ q }}",
    "{% generation %}",
    "{% print 1, name %}",
    "{% print %}",
    "{% do x %}",
    "{% nosuch %}",
    "{% 5 %}",
    "{% trans %}x{% endtrans %}",
    "{% if no %}{{ x|nosuch }}{% endif %}ok",
    "{% if yes %}{{ x|nosuch }}{% endif %}ok",
    "{% if no %}{{ x is nosuch }}{% endif %}ok",
    "{% if no %}{% for i in [] %}{{ x|nosuch }}{% endfor %}{% endif %}ok",
    "{% for i in [] %}{{ x|nosuch }}{% endfor %}ok",
    "{{ (x|nosuch) if no else 'ok' }}",
    "{{ x|nosuch if yes else 'ok' }}",
    "{{ x is nosuch if no else 'ok' }}",
    "{% set g = words|map('upper') %}{{ g|list }}{{ g|list }}",
    "{% set g = words|map('upper') %}{{ g|length }}",
    "{% set g = words|map('upper') %}{{ g|first }}{{ g|list }}",
    "{% set g = words|map('upper') %}{{ g[0] is defined }}{{ g is iterable }}{{ g is sequence }}",
    "{% set j = joiner('; ') %}{% for i in numbers %}{{ j() }}{{ i }}{% endfor %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.current }}",
    "{% for group in users|groupby('city') %}{{ group.grouper }}:{{ group.list|length }};{% endfor %}",
    "{% for city, items in users|groupby('city') %}{{ city }}={{ items|map(attribute='name')|join('+') }};{% endfor %}",
    "{%- for m in messages %}\n{{ m.role }}: {{ m.content }}\n{%- endfor %}\n",
    "{% for m in messages %}{% if loop.first and m.role == 'system' %}S{% else %}{{ m['content'] }}{% endif %}{% endfor %}",
    "{% for m in messages[::-1] %}{{ m.role }} {% endfor %}",
    "{% for m in messages[1:] if m.role != 'assistant' %}{{ m.role }}{% endfor %}",
    "{% if messages[0].role == 'user' %}{{ raise_exception('No user first') }}{% else %}{{ raise_exception('System: ' + messages[0]['content']) }}{% endif %}",
    "{{ '<|im_start|>' + messages[0].role + '\\n' + messages[0].content + '<|im_end|>' }}",
    "{{ messages[0].content + none }}",
    "{{ 'a' + messages[0].nope }}",
    "{{ messages[9].role }}",
    "{{ messages[0]['nope']['x'] }}",
    "{% if 'x' in messages[0].nope %}y{% else %}n{% endif %}",
    "{% if messages[0].nope.startswith('x') %}{% endif %}",
    "{% if none in none %}{% endif %}",
    "{% macro tree(xs) %}{% for x in xs %}{% if x is iterable %}[{{ tree(x) }}]{% else %}{{ x }}{% endif %}{% endfor %}{% endmacro %}{{ tree(nested) }}",
    "{% set x = [1, 2] %}{% set x = x + [3] %}{{ x }}{{ x|length }}",
    "{% set d = {'a': 1} %}{% set d = dict(d, b=2) %}{{ d }}",
    "{{ user.name if user.name is defined else 'anon' }}",
    "{% set a = {'b': {'c': [1, {'d': 'deep'}]}} %}{{ a.b.c[1].d }}{{ a['b']['c'][1]['d'] }}",
    "line1\n{% set a = 1 %}\nline2\n    {% set b = 2 %}   \nline3",
    "{% if yes %}\n    indented\n{% endif %}\n\nend\n",
    "    {{ n }}    \n    {% if yes %}    \n    {{ n }}\n    {% endif %}    \n",
    "\n\n{%- if yes %}\n\nx{% endif -%}\n\n",
    "{%- set a = 1 -%}\n\n  {{ a }}  \n{#- c -#}\n z",
    "{{ name }}{# c #}{{ name }}",
    "{{ name\n|\nupper\n}}",
    "{{ 'multi\nline' }}",
    "{% if name is defined and name and name|length > 3 and not no %}ok{% endif %}",
    "{% if (a is not defined) or a %}ok{% endif %}",
    "{{ 'a\\\nb' }}",
    "{% set a = 'x' %}{% macro f(a) %}{{ a }}{% endmacro %}{{ f('y') }}{{ a }}",
    "{% set outer %}{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}{% endset %}{{ outer }}",
    "{% for i in [1, 2, 3] %}{% set b %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endset %}{{ b }}{% endfor %}",
    "{{ 'ünï' }}{% set ünï = 1 %}{{ ünï }}",
    "{{ a²}}",
]

CASES = ["{{ " + expression + " }}" for expression in EXPRESSIONS] + STATEMENTS
