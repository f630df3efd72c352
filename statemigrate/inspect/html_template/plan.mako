<%namespace name="parts" file="parts.mako"/>\
${parts.head(f"Plan for {title}", style, policy)}\
<body>
<main>
<header>
<p class="kicker">statemigrate plan</p>
<h1><bdi dir="ltr">${title}</bdi></h1>
<div class="verdict ${grade}">
<p class="headline">${headline}</p>
% if len(plans) > 1:
<ul class="fleet">
% for number, each in enumerate(plans):
<li><a href="#checkpoint-${number}"><bdi dir="ltr">${each.checkpoint.name}</bdi></a>
<span class="note">${"no plan" if each.plan is None else "to act on" if each.plan.asks else "can start"}</span></li>
% endfor
</ul>
% endif
</div>
</header>

% for number, each in enumerate(plans):
${section(number, each)}
% endfor
<p class="kicker made">Made ${made_at} by statemigrate ${version}. Nothing was written.</p>
</main>
</body>
</html>

<%def name="section(number, each)">
<section id="checkpoint-${number}" aria-labelledby="name-${number}">
<h2 id="name-${number}"><bdi dir="ltr">${each.checkpoint.name}</bdi></h2>
% if each.plan is None:
<p class="grade bad">${each.error.summary}</p>
% if each.error.next_action:
<p class="step"><strong>Next:</strong> ${each.error.next_action}</p>
% endif
% else:
<dl>
% for name, value in facts(each.plan):
<div><dt>${name}</dt><dd>${value}</dd></div>
% endfor
</dl>
% for item in each.plan.items:
<h3><bdi dir="ltr">${item.name}</bdi></h3>
<p class="grade ${grade_of(item)}">${verdict_of(item)}</p>
<p>${item.text}</p>
% endfor
<h3>Steps</h3>
% for at, step in enumerate(each.plan.steps, 1):
<p class="step">${at}. ${step.text}\
% if step.seconds is not None:
 <span class="note">about ${rough(step.seconds)}</span>\
% endif
</p>
% if step.command:
<p><code>${step.command}</code></p>
% endif
% endfor
% if each.plan.undo:
<p class="next"><strong>Back:</strong> ${each.plan.undo}</p>
% endif
% endif
</section>
</%def>
