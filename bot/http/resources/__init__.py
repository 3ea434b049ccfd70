"""The gateway's own resources: what operators and people may see and do, once for the API and once for the page.

Services (`live`, `requests`, `acting`, `transcripts`, `accounting`, `belongings`, `capabilities`, `configuration`)
return plain values and decide nothing that another room decides; `routes` presents them as JSON, bot/http/panel as
pages.
"""
