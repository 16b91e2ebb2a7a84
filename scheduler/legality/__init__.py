"""Legality of a schedule: exact queries, answered with a witness. Changes nothing."""
