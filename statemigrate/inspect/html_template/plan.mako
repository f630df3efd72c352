<%namespace name="parts" file="parts.mako"/>\
${parts.head(f"Plan for {title}", style, policy)}\
<body>
<main>
<header>
<p class="kicker">statemigrate plan</p>
<h1><bdi dir="ltr">${title}</bdi></h1>
<div class="verdict ${grade}">
<p class="headline">${headline}</p>
% if len(plans.found) > 1:
<ul class="fleet">
% for number, each in numbered:
<li><a href="#checkpoint-${number}"><bdi dir="ltr">${each.checkpoint.name}</bdi></a>
<span class="note">${"cannot be read" if each.plan is None else "something to do" if each.asks else "nothing to do"}</span></li>
% endfor
</ul>
% endif
</div>
</header>

% for number, each in numbered:
<section id="checkpoint-${number}" aria-labelledby="name-${number}">
<h2 id="name-${number}"><bdi dir="ltr">${each.checkpoint.name}</bdi></h2>
% if each.plan is None:
<p class="grade bad">${each.error.summary}</p>
% else:
${planned(each.plan)}
% endif
</section>
% endfor
<p class="kicker made">Made ${made_at} by statemigrate ${version}. Nothing was written.</p>
</main>
</body>
</html>

<%def name="planned(plan)">
<dl>
% for name, value in shown.facts(plan):
<div><dt>${name}</dt><dd>${value}</dd></div>
% endfor
% if plan.code:
<div class="wide"><dt>New code</dt><dd><code>${plan.code}</code></dd></div>
% endif
<div class="wide"><dt>Checkpoint</dt><dd><code>${plan.checkpoint}</code></dd></div>
</dl>
<h3>What happens to the state</h3>
<ul class="verdicts">
% for item in plan.items:
<li class="${shown.grade(item)}"><bdi dir="ltr">${item.name}</bdi> <strong class="grade">${shown.verdict(item)}</strong>
<span class="note"><bdi>${item.text}</bdi></span></li>
% endfor
</ul>
% if plan.steps:
<h3>Steps</h3>
<ol class="steps">
% for step in plan.steps:
<li><bdi>${step.text}</bdi> <span class="note">${shown.about(step.seconds)}</span>\
% if step.command:
<code class="command"><bdi dir="ltr">${step.command}</bdi></code>\
% endif
</li>
% endfor
</ol>
% endif
% if plan.undo:
<p class="step"><strong>Back:</strong> <bdi>${plan.undo}</bdi></p>
% endif
% if plan.basis:
<p class="quiet">Times are for ${plan.basis}.</p>
% endif
</%def>
