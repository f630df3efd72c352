<%namespace name="parts" file="parts.mako"/>\
${parts.head(f"Preview of {found.code}", style, policy)}\
<body>
<main>
<header>
<p class="kicker">statemigrate preview</p>
<h1><bdi dir="ltr">${found.code}</bdi></h1>
<div class="verdict ${grade}">
<p class="headline">${headline}</p>
% if found.unexpected:
<ul>
% for each in found.unexpected:
<li><bdi>${each}</bdi></li>
% endfor
</ul>
% endif
% if found.noise:
<p class="next">Not compared, since the old code does not compute it as the query has:
% for each in found.noise:
<br><code><bdi dir="ltr">${each.store}.${each.field}</bdi></code> <span class="note">${each.cause}</span>
% endfor
</p>
% endif
</div>
</header>

<section aria-labelledby="runs">
<h2 id="runs">What was run</h2>
<dl>
% for name, value in facts:
<div><dt>${name}</dt><dd>${value}</dd></div>
% endfor
% if found.old_code:
<div class="wide"><dt>Old code</dt><dd><code>${found.old_code}</code></dd></div>
% endif
<div class="wide"><dt>Checkpoint</dt><dd><code>${found.checkpoint}</code></dd></div>
</dl>
</section>

% for number, store in enumerate(stores):
<section aria-labelledby="store-${number}">
<h2 id="store-${number}"><bdi dir="ltr">${store.name}</bdi></h2>
<div class="scroll">
<table class="families">
<thead><tr><th scope="col">Batch</th><th scope="col" class="number">Rows</th><th scope="col" class="number">Added</th><th scope="col" class="number">Missing</th><th scope="col" class="number">Changed</th><th scope="col">Fields</th></tr></thead>
<tbody>
% for batch, each in store.rows:
<tr><th scope="row">${batch}</th><td class="number" data-label="Rows">${f"{each.rows:,}"}</td><td class="number" data-label="Added">${f"{each.added:,}"}</td><td class="number" data-label="Missing">${f"{each.missing:,}"}</td><td class="number" data-label="Changed">${f"{each.changed:,}"}</td><td data-label="Fields"><bdi>${shown_fields(each)}</bdi></td></tr>
% endfor
</tbody>
</table>
</div>
% if store.examples:
<h3>Examples</h3>
% for each in store.examples:
<div class="whole">
<p class="key">Batch ${each.batch}, ${each.change}, key ${parts.value(each.key)}</p>
<div class="sides">
${parts.side("Before", each.before)}
${parts.side("After", each.after)}
</div>
</div>
% endfor
% endif
</section>
% endfor
<p class="kicker made">Made ${made_at} by statemigrate ${version}. The query's checkpoint was only read.</p>
</main>
</body>
</html>
