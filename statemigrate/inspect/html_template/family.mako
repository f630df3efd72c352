<%page args="family, number"/>\
<%namespace name="parts" file="parts.mako"/>\
<%
    counted = text.counted
%>\
<section aria-labelledby="family-${number}">
<h2 id="family-${number}"><bdi dir="ltr">${family.family}</bdi> <span class="quiet">revision <code>${family.revision}</code></span></h2>

<h3>Failures</h3>
% if not family.tried:
<p>No value of this family was tried.</p>
% elif not family.failed:
<p>None: ${counted(family.passed, "value")} ${"migrates" if family.passed == 1 else "migrate"}.</p>
% else:
<p>${f"{family.failed:,}"} of ${counted(family.tried, "value")} would not migrate.</p>
% endif
% if family.failures:
${parts.causes(family.failures, charts.cause_bars(family))}
% endif

% if family.losses or family.constants:
<h3>Lost and constant fields</h3>
${parts.fates(family)}
% endif

<h3>Round trips</h3>
<p>${sentences.round_trips(family)}</p>
% if family.differences:
${parts.differences(family.differences)}
% endif

% if family.broken_laws:
<h3>Laws</h3>
<p>${f"{family.lawless:,}"} of ${counted(family.passed, "value")} broke a law that a script claims.</p>
${parts.laws(family.broken_laws)}
% endif

<h3>Fields</h3>
% if family.fields:
<p>Compared in ${counted(family.looked_at, "value")}.</p>
${parts.chart("Effect on each field", charts.field_bars(family), ("kept", "renamed", "changed", "emptied", "added", "removed"))}
% if charts.with_examples(family.fields):
${parts.effects(charts.with_examples(family.fields))}
% endif
% else:
<p>No value was compared field by field.</p>
% endif

% if family.examples:
<h3>Values, before and after</h3>
${parts.wholes(family.examples)}
% endif

<h3>Sizes</h3>
% if family.sizes_before or family.sizes_after or family.passed:
<p>The values that migrate take ${sentences.growth(family.bytes_before, family.bytes_after)}, as Avro:
${f"{family.bytes_before:,}"} and ${f"{family.bytes_after:,}"} bytes.</p>
% else:
<p>No value was measured.</p>
% endif
% if family.sizes_before or family.sizes_after:
${parts.chart("Values by size", charts.size_bars(family), ("before", "after"))}
% endif
</section>
