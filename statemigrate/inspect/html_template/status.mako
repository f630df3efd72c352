<%namespace name="parts" file="parts.mako"/>\
${parts.head(f"Status of {title}", style, policy)}\
<body>
<main>
<header>
<p class="kicker">statemigrate status</p>
<h1><bdi dir="ltr">${title}</bdi></h1>
<div class="verdict ${verdict.grade}">
<p class="headline">${verdict.headline}</p>
<p class="grade">${verdict.text}</p>
% if len(fleet.looks) > 1:
<p class="note">${shown.totals(fleet)}</p>
${listed([each for each in numbered if each[1].need != "in order"])}
% if shown.in_order(fleet):
<details>
<summary>${shown.in_order(fleet)}</summary>
${listed([each for each in numbered if each[1].need == "in order"])}
</details>
% endif
% endif
</div>
</header>

% if len(fleet.looks) > 1 and fleet.next_steps:
<section aria-labelledby="next">
<h2 id="next">What is next</h2>
% for step in fleet.next_steps:
<p class="step"><strong>${shown.count(step)}</strong> ${step.text}</p>
<p class="note">
% for number, name, store in shown.sections_of(step, numbered):
<a href="#checkpoint-${number}"><bdi dir="ltr">${name}</bdi></a> <bdi dir="ltr">${store}</bdi>${"" if loop.last else ","}
% endfor
</p>
% endfor
</section>
% endif
% for number, look in numbered:
% if look.need != "in order" or len(fleet.looks) == 1:
${section(number, look)}
% endif
% endfor
% if len(fleet.looks) > 1 and shown.in_order(fleet):
<details>
<summary>${shown.in_order(fleet)}</summary>
% for number, look in numbered:
% if look.need == "in order":
${section(number, look)}
% endif
% endfor
</details>
% endif
<p class="kicker made">Made ${made_at} by statemigrate ${version}. Counts are exact, as of each checkpoint's last committed batch.</p>
</main>
</body>
</html>

<%def name="listed(some)">
% if some:
<ul class="fleet">
% for number, look in some:
<li><a href="#checkpoint-${number}"><bdi dir="ltr">${look.checkpoint.name}</bdi></a>
<span class="note">\
% if look.status is None:
cannot be read\
% else:
${shown.left(look.status)}\
% endif
</span></li>
% endfor
</ul>
% endif
</%def>

<%def name="section(number, look)">
<section id="checkpoint-${number}" aria-labelledby="name-${number}">
<h2 id="name-${number}"><bdi dir="ltr">${look.checkpoint.name}</bdi>\
% if look.status is not None:
 <span class="quiet">${look.status.engine}</span>\
% endif
</h2>
% if look.status is None:
<p class="grade bad">${look.error.summary}</p>
<dl>
% for name, value in shown.error(look):
<div class="wide"><dt>${name}</dt><dd>${value}</dd></div>
% endfor
</dl>
% else:
<dl>
% for name, value in shown.facts(look.status):
<div><dt>${name}</dt><dd>${value}</dd></div>
% endfor
% if look.checkpoint.path != look.checkpoint.name:
<div class="wide"><dt>Checkpoint</dt><dd><code>${look.checkpoint.path}</code></dd></div>
% endif
</dl>
% for store in look.status.stores:
<h3><bdi dir="ltr">${store.store}</bdi> <span class="quiet">${store.kind} state, target <code>${store.target}</code>, ${store.head_in_words}</span></h3>
% if store.behind is not None:
<p class="grade doubtful">Behind: ${store.behind}.</p>
% endif
% if shown.bar(store) is not None:
${share(shown.bar(store))}
% endif
% if store.families:
${families(store)}
% endif
% if shown.pace(store, look.status):
<p>${shown.pace(store, look.status)}</p>
% endif
% if len(fleet.looks) == 1:
<p class="step"><strong>Next:</strong> ${store.next_action}</p>
% endif
% endfor
% if not look.status.stores:
<p>There is no store in it.</p>
% endif
% endif
</section>
</%def>

<%def name="share(bar)">
<div class="row share">
${parts.drawn(bar)}
<span class="note" aria-hidden="true">${bar.note}</span>
</div>
</%def>

<%def name="families(store)">
<ul class="held">
% for family in store.families:
<li><bdi dir="ltr">${family.name}</bdi> <span class="note">${f"{family.values:,}"} left\
% if family.quarantined:
, ${f"{family.quarantined:,}"} failed\
% endif
</span></li>
% endfor
</ul>
</%def>
