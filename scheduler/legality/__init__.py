"""Questions about the order of a schedule, answered exactly and with a witness. Changes nothing."""
