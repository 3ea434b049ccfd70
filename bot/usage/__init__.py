"""Tokens and money: meter, prices, budgets, reports."""
