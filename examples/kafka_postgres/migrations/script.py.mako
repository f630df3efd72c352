"""${message}
% if details:

${details}
% endif

Revision ID: ${up_revision}
Revises: ${down_revision or "base"}
Create Date: ${create_date}
"""

% if library_imports:
${library_imports}

% endif
from statemigrate.formats import ${imports}

# Identify the script; `statemigrate new` keeps them right.
revision = "${up_revision}"
down_revision = ${'"%s"' % down_revision if down_revision else None}
branch_labels = ${'("%s",)' % branch_labels[0] if branch_labels else None}
store = "${store}"

% if baseline:
# A baseline only records the format that the state has today: nothing is transformed.
old = None
${new}
% else:
# The formats of a value before and after this migration: Struct("field TYPE, ...") or Avro(schema).
${old}
${new}


% if transforms:
${transforms}
% else:
def upgrade(value: Value) -> Value:
    # Takes a value in the format `old`, a dict by field name; returns it in the format `new`.
    raise NotImplementedError("return the value in the format `new`")


def downgrade(value: Value) -> Value:
    # The way back, from `new` to `old`. If there is none, leave this as it is or delete it: a query
    # then refuses to start with older code once a value was written in the format `new`.
    raise NotImplementedError("return the value in the format `old`")
% endif
% endif
