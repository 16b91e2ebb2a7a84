"""What a machine can hold and do: elements, lanes, room, chunks, and the rules of emission."""
