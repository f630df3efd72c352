<%def name="head(title, style, policy)">\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<style>${style | n}</style>
</head>
</%def>
<%def name="chart(title, bars, kinds)">
<figure class="chart">
<figcaption>${title}</figcaption>
<ul class="legend" aria-label="Colours">
% for kind in kinds:
<li><span class="swatch ${kind.replace(' ', '-')}"></span>${kind}</li>
% endfor
</ul>
% for bar in bars:
<div class="row">
<span class="label" aria-hidden="true"><bdi dir="ltr">${bar.label}</bdi></span>
${drawn(bar)}
<span class="note" aria-hidden="true">${bar.note}</span>
</div>
% endfor
</figure>
</%def>

<%def name="drawn(bar)">
<%
    height = 16 if len(bar.lanes) == 1 else 10
%>\
<svg width="100%" height="${len(bar.lanes) * (height + 1)}" role="img" aria-label="${bar.description}"><title>${bar.description}</title>
% for lane, pieces in enumerate(bar.lanes):
<rect class="track" x="0" y="${lane * (height + 1)}" width="100%" height="${height}"/>
% for part in pieces:
<rect class="bar ${part.kind.replace(' ', '-')}" x="${f'{part.start:.4f}'}%" y="${lane * (height + 1)}" width="${f'{part.width:.4f}'}%" height="${height}"/>
% endfor
% for part in pieces:
% if part.is_tiny:
<line class="mark ${part.kind.replace(' ', '-')}" x1="${f'{part.start:.4f}'}%" x2="${f'{part.start:.4f}'}%" y1="${lane * (height + 1)}" y2="${lane * (height + 1) + height}"/>
% endif
% endfor
% endfor
</svg>
</%def>

<%def name="families(report)">
<div class="scroll" tabindex="0" role="region" aria-label="Families">
<table class="families">
<caption>Values of each family</caption>
<thead><tr><th scope="col">Family and revision</th><th scope="col" class="number">Stored</th><th scope="col" class="number">Tried</th><th scope="col" class="number">Passed</th><th scope="col" class="number">Failed</th><th scope="col" class="number">Round trips differing</th></tr></thead>
<tbody>
% for family in report.families:
<tr><th scope="row"><bdi dir="ltr">${family.family}</bdi> <code class="quiet">${family.revision}</code></th>\
% for label, number in (("Stored", family.stored), ("Tried", family.tried), ("Passed", family.passed), ("Failed", family.failed)):
<td class="number" data-label="${label}">${f"{number:,}"}</td>\
% endfor
<td class="number" data-label="Round trips differing">${f"{family.differing:,}" if family.reversible else "no way back"}</td></tr>
% endfor
</tbody>
</table>
</div>
</%def>

<%def name="causes(failures, bars)">
<figure class="chart stacked">
<figcaption>Causes, the most frequent first</figcaption>
% for failure, bar in zip(failures, bars):
<div class="row cause">
<span class="label" aria-hidden="true">\
% for number, line in enumerate(visible_lines(failure.cause)):
% if number:
<br>\
% endif
<bdi dir="ltr">${line}</bdi>\
% endfor
</span>
<span class="note" aria-hidden="true">${bar.note}</span>
${drawn(bar)}
% if failure.keys:
<p class="keys">Keys${" (some)" if len(failure.keys) < failure.values else ""}:
% for key in failure.keys:
<code class="value" dir="ltr">${key}</code>
% endfor
</p>
% endif
</div>
% endfor
</figure>
</%def>

<%def name="fates(family)">
<ul class="fates">
% for each in family.losses:
<li class="${"quiet" if each.meant else "lost"}"><strong><bdi dir="ltr">${each.field}</bdi></strong> <bdi dir="ltr">${sentences.loss(each)}</bdi></li>
% endfor
% for each in family.constants:
<li class="${"quiet" if each.meant else "constant"}"><strong><bdi dir="ltr">${each.field}</bdi></strong> <bdi dir="ltr">${sentences.constant(each)}</bdi></li>
% endfor
</ul>
</%def>

<%def name="differences(differences)">
<div class="scroll" tabindex="0" role="region" aria-label="Differences of round trips">
<table class="examples">
<caption>Fields that differ</caption>
<thead><tr><th scope="col">Field</th><th scope="col" class="number">Values</th><th scope="col">Key</th><th scope="col">Before</th><th scope="col">Came back as</th></tr></thead>
<tbody>
% for each in differences:
% for number, example in enumerate(each.examples or (None,)):
<tr>\
% if not number:
<th scope="rowgroup" rowspan="${len(each.examples) or 1}"><bdi dir="ltr">${each.field}</bdi></th><td class="number" rowspan="${len(each.examples) or 1}" data-label="Values">${f"{each.values:,}"}</td>\
% endif
${sides(example, "Came back as")}</tr>
% endfor
% endfor
</tbody>
</table>
</div>
</%def>

<%def name="laws(broken)">
<ul class="fates">
% for each in broken:
<li class="lost"><bdi dir="ltr">${sentences.broken(each)}</bdi></li>
% endfor
</ul>
<div class="scroll" tabindex="0" role="region" aria-label="Values that break a law">
<table class="examples">
<caption>Values that break a law, the smallest first</caption>
<thead><tr><th scope="col">Law</th><th scope="col">Field</th><th scope="col" class="number">Values</th><th scope="col">Key</th><th scope="col">Before</th><th scope="col">Came back as</th></tr></thead>
<tbody>
% for each in broken:
<% rows = [*filter(None, [each.smallest]), *each.examples] or [None] %>\
% for number, example in enumerate(rows):
<tr>\
% if not number:
<th scope="rowgroup" rowspan="${len(rows)}"><code>${each.law}</code></th><td rowspan="${len(rows)}" data-label="Field"><bdi dir="ltr">${each.field or "all"}</bdi></td><td class="number" rowspan="${len(rows)}" data-label="Values">${f"{each.values:,}"}</td>\
% endif
${sides(example, "Came back as")}</tr>
% endfor
% endfor
</tbody>
</table>
</div>
</%def>

<%def name="effects(fields)">
<div class="scroll" tabindex="0" role="region" aria-label="Examples of fields">
<table class="examples">
<caption>Examples, before and after</caption>
<thead><tr><th scope="col">Field</th><th scope="col">Effect</th><th scope="col" class="number">Values</th><th scope="col">Key</th><th scope="col">Before</th><th scope="col">After</th></tr></thead>
<tbody>
% for each in fields:
% for number, example in enumerate(each.examples):
<tr>\
% if not number:
<th scope="rowgroup" rowspan="${len(each.examples)}"><bdi dir="ltr">${each.label}</bdi></th><td rowspan="${len(each.examples)}" data-label="Effect">${each.effect}</td><td class="number" rowspan="${len(each.examples)}" data-label="Values">${f"{each.values:,}"}</td>\
% endif
${sides(example)}</tr>
% endfor
% endfor
</tbody>
</table>
</div>
</%def>

<%def name="sides(example, after='After')">\
% if example is None:
<td colspan="3" class="quiet">no example was kept</td>\
% else:
<td data-label="Key">${value(example.key)}</td><td data-label="Before">${value(example.before)}</td><td data-label="${after}">${value(example.after)}</td>\
% endif
</%def>

<%def name="value(shown)">\
% if shown is None:
<span class="quiet">nothing</span>\
% else:
<code class="value" dir="ltr">${shown}</code>\
% endif
</%def>

<%def name="wholes(examples)">
% for each in examples:
<div class="whole">
<p class="key">Key ${value(each.key)}</p>
<div class="sides">
${side("Before", each.before)}
${side("After", each.after)}
</div>
</div>
% endfor
</%def>

<%def name="side(title, shown)">
<figure><figcaption>${title}</figcaption>
<code class="value" dir="ltr">\
% for number, line in enumerate(visible_lines(shown or "")):
% if number:
<br>\
% endif
${line}\
% endfor
</code></figure>
</%def>
