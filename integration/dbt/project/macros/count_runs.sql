{% macro count_runs() %}
    {% if execute and flags.WHICH == "run" %}
        create table if not exists {{ target.schema }}.runs (finished timestamptz default now());
        insert into {{ target.schema }}.runs default values;
    {% endif %}
{% endmacro %}
