"""Layout assignment: which tensor dimensions fill the vectors of each memory, and the address order of the vectors."""
