<%namespace name="parts" file="parts.mako"/>\
<%
    counted, duration = text.counted, text.duration
%>\
${parts.head(f"Dry run of {report.store}", style, policy)}\
<body>
<main>
<header>
<p class="kicker">statemigrate ${report.version} dry run${"" if report.made_at is None else f", {text.utc_time(report.made_at)}"}</p>
<h1><bdi dir="ltr">${report.store}</bdi> to <code>${report.target}</code></h1>
% for script in report.scripts:
<p class="script"><code>${script.revision}</code> <bdi dir="ltr">${script.message or "a script without a message"}</bdi>${", taken back" if script.direction == "downgrade" else ""}</p>
% endfor
<div class="verdict ${verdict.grade}">
<p class="headline">${sentences.headline(report)}</p>
<p class="grade">${verdict.text}</p>
% if sentences.sentences(report):
<ul>
% for sentence in sentences.sentences(report):
<li>${sentence}</li>
% endfor
</ul>
% endif
<p class="next"><strong>Next:</strong> ${verdict.next_action}</p>
</div>
</header>

<section aria-labelledby="families">
<h2 id="families">Families</h2>
% if report.families:
${parts.chart("Passed, failed and not sampled", charts.outcome_bars(report), ("passed", "failed", "not sampled"))}
${parts.families(report)}
% else:
<p>Every value of the store is in the target's format already: there is no other family.</p>
% endif
</section>

% for number, family in enumerate(report.families):
<%include file="family.mako" args="family=family, number=number"/>
% endfor

<section aria-labelledby="backfill">
<h2 id="backfill">Backfill</h2>
% if report.backfill is None:
<p>No estimate was made.</p>
% else:
<dl>
<div><dt>Values</dt><dd>${f"{report.backfill.values:,}"}</dd></div>
<div><dt>Time</dt><dd>about ${duration(report.backfill.seconds)}</dd></div>
<div><dt>Batches</dt><dd>${f"{report.backfill.batches:,}"}</dd></div>
<div class="wide"><dt>Estimated from</dt><dd><bdi dir="ltr">${report.backfill.basis}</bdi></dd></div>
</dl>
% endif
</section>

<section aria-labelledby="run">
<h2 id="run">The run</h2>
<dl>
<div><dt>Store</dt><dd><bdi dir="ltr">${report.store}</bdi> (${report.kind})</dd></div>
<div><dt>Engine</dt><dd>${report.engine}</dd></div>
% if report.batch is not None:
<div><dt>State as of batch</dt><dd>${report.batch}</dd></div>
% endif
<div><dt>Target revision</dt><dd><code>${report.target}</code></dd></div>
<div><dt>Sample</dt><dd>${"all values" if report.sample is None else counted(report.sample, "value")}</dd></div>
<div><dt>In the target's format already</dt><dd>${f"{report.in_target:,}"}</dd></div>
<div><dt>Took</dt><dd>${duration(report.seconds)}, ${f"{report.rate:,.0f}"} values a second</dd></div>
<div class="wide"><dt>Checkpoint</dt><dd><code>${report.checkpoint}</code></dd></div>
</dl>
<p class="quiet">Nothing was written: the values were read, taken through the transforms and dropped.</p>
</section>
</main>
</body>
</html>
