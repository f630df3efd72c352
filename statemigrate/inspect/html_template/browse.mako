<%namespace name="parts" file="parts.mako"/>\
${parts.head(title, style, policy)}\
<body>
<main>
<header>
% if state is not None:
<p class="kicker"><bdi dir="ltr">${state.checkpoint}</bdi>, batch ${f"{state.batch:,}"}</p>
% endif
<h1><bdi dir="ltr">${title}</bdi></h1>
% if browsing.root is not None and state is not None:
<p class="note"><a href="${browsing.link("", batch=state.batch)}">All stores</a>
<% older = [each for each in state.batches if each < state.batch][-5:] %>\
% if older:
 · other batches:
% for each in reversed(older):
<a href="${browsing.link("", batch=each)}">${f"{each:,}"}</a>
% endfor
% endif
 · <a href="${browsing.root}">newest</a></p>
% endif
</header>
% if failure is not None:
<div class="verdict bad">
<p class="headline">${failure}</p>
<dl>
% for name, text in parts_of_failure:
<div class="wide"><dt>${name}</dt><dd>\
% for number, line in enumerate(visible_lines(text)):
% if number:
<br>\
% endif
${line}\
% endfor
</dd></div>
% endfor
</dl>
% if browsing.root is not None:
<p class="next"><a href="${browsing.root}">All stores</a></p>
% endif
</div>
% endif
% if hidden and state is not None:
<p class="note">Keys and values are not shown.</p>
% endif
% if counts is not None:
${overview()}
% endif
% if store is not None:
${one_store()}
% endif
% if difference is not None:
<section aria-labelledby="difference">
<h2 id="difference">From batch ${f"{before:,}"} to ${f"{state.batch:,}"}</h2>
${changes(difference, changed)}
<p class="note"><a href="${browsing.link("store", name=title, batch=state.batch)}">The store</a></p>
</section>
% endif
% for each in sections or ():
${whole(*each)}
% endfor
<p class="kicker made">Made ${made_at} by statemigrate ${version}. Only committed state is shown, and nothing is written.</p>
</main>
</body>
</html>

<%def name="overview()">
<section aria-labelledby="stores">
<h2 id="stores">Stores</h2>
<div class="scroll" tabindex="0" role="region" aria-label="Stores">
<table class="families">
<thead><tr><th scope="col">Store</th><th scope="col" class="number">Rows</th><th scope="col" class="number">Partitions</th><th scope="col" class="number">Files</th><th scope="col" class="number">Left to migrate</th></tr></thead>
<tbody>
% for each in counts:
<tr><th scope="row">\
% if browsing.root is None:
<bdi dir="ltr">${each.name}</bdi>\
% else:
<a href="${browsing.link("store", name=each.name, batch=state.batch)}"><bdi dir="ltr">${each.name}</bdi></a>\
% endif
</th><td class="number" data-label="Rows">${f"{each.rows:,}"}</td><td class="number" data-label="Partitions">${len(each.partitions)}</td><td class="number" data-label="Files">${size(each.size)}</td><td class="number" data-label="Left to migrate">${f"{each.left:,}"}</td></tr>
% endfor
% for each in unread:
<tr><th scope="row"><a href="${browsing.link("store", name=each.name, batch=state.batch)}"><bdi dir="ltr">${each.name}</bdi></a></th><td colspan="4">Cannot be read: ${each.error.headline}</td></tr>
% endfor
</tbody>
</table>
</div>
% if internal and browsing.root is not None:
<p class="quiet">Spark's own:
% for name in internal:
<a href="${browsing.link("store", name=name, batch=state.batch)}"><bdi dir="ltr">${name}</bdi></a>
% endfor
</p>
% endif
</section>
</%def>

<%def name="facts(found)">
<dl>
<div><dt>Rows</dt><dd>${f"{found.rows:,}"}</dd></div>
<div><dt>Files</dt><dd>${size(found.size)}</dd></div>
<div><dt>Left to migrate</dt><dd>${f"{found.left:,}"}</dd></div>
</dl>
<div class="scroll" tabindex="0" role="region" aria-label="Revisions">
<table class="families">
<thead><tr><th scope="col">Revision</th><th scope="col" class="number">Rows</th><th scope="col">Values</th></tr></thead>
<tbody>
% for revision, rows_of in found.revisions.items():
<tr><th scope="row"><code>${revision}</code></th><td class="number" data-label="Rows">${f"{rows_of:,}"}</td><td data-label="Values">${"migrate when they are touched" if revision in found.waiting else "have the target's format"}</td></tr>
% endfor
</tbody>
</table>
</div>
<details>
<summary>Rows by partition: ${found.skew}</summary>
${parts.chart("Rows by partition", found.bars(), [])}
% if len(found.partitions) > len(found.bars()):
<p class="quiet">The ${len(found.bars())} largest of ${f"{len(found.partitions):,}"}.</p>
% endif
</details>
</%def>

<%def name="one_store()">
<section aria-labelledby="facts">
<h2 id="facts">Rows and revisions</h2>
${facts(store)}
</section>
<% older = [each for each in state.batches if each < state.batch] %>\
% if older:
<section aria-labelledby="compare">
<h2 id="compare">What changed</h2>
<form method="get" action="${browsing.root}diff">
<input type="hidden" name="name" value="${title}">
<p><label>From batch <input name="before" type="number" value="${older[-1]}" required></label>
<label>to batch <input name="batch" type="number" value="${state.batch}" required></label>
<button>Compare</button></p>
</form>
</section>
% endif
% if not hidden:
<section aria-labelledby="search">
<h2 id="search">Search by key</h2>
<form method="get" action="${browsing.root}store">
<input type="hidden" name="name" value="${title}">
<input type="hidden" name="batch" value="${state.batch}">
<p>
% for column, word in zip(table.key_columns, words):
<label><bdi dir="ltr">${column}</bdi> <input name="key" value="${word}"></label>
% endfor
<button>Search</button>
% if searched:
<a href="${browsing.link("store", name=title, batch=state.batch)}">All rows</a>
% endif
</p>
</form>
</section>
% endif
% if life is not None:
<section aria-labelledby="life">
<h2 id="life">Life of the key over the batches that are there</h2>
${listed(life, "Life of the key")}
</section>
% endif
<section aria-labelledby="rows">
<h2 id="rows">${"Columns" if rows is None else "Rows"}</h2>
${listed_or_columns(rows, table)}
</section>
</%def>

<%def name="listed_or_columns(found, of)">
% if found is not None:
${listed(found, "Rows")}
% else:
<dl>
% for each in of.schema:
<div><dt><bdi dir="ltr">${each.name}</bdi></dt><dd>${each.type}</dd></div>
% endfor
</dl>
% endif
</%def>

<%def name="listed(found, label)">
% if not found.cells:
<p class="note">There are no rows.</p>
% else:
<div class="scroll" tabindex="0" role="region" aria-label="${label}">
<table class="examples">
<thead><tr>\
% for column in found.columns:
<th scope="col"><bdi dir="ltr">${column}</bdi></th>\
% endfor
</tr></thead>
<tbody>
% for row in found.cells:
<tr>\
% for column, cell in zip(found.columns, row):
<td data-label="${column}"><code class="value" dir="ltr">${cell}</code></td>\
% endfor
</tr>
% endfor
</tbody>
</table>
</div>
% if found.note:
<p class="quiet">${found.note}</p>
% endif
% endif
</%def>

<%def name="changes(found, table_of)">
% if found.only_in is not None:
<p class="note">The store is only at the batch ${found.only_in}.</p>
% else:
<p class="note">${", ".join(f"{number:,} {change}" for change, number in found.counts.items())}</p>
% if table_of is not None and table_of.cells:
${listed(table_of, "Changes")}
% endif
% endif
</%def>

<%def name="whole(counts_of, table_of, rows_of, difference_of, changed_of, batch_before)">
<section>
<h2><bdi dir="ltr">${counts_of.name}</bdi></h2>
${facts(counts_of)}
<details>
<summary>${"Columns" if rows_of is None else "Rows"}</summary>
${listed_or_columns(rows_of, table_of)}
</details>
% if difference_of is not None:
<details>
<summary>From batch ${f"{batch_before:,}"} to ${f"{state.batch:,}"}</summary>
${changes(difference_of, changed_of)}
</details>
% endif
</section>
</%def>
