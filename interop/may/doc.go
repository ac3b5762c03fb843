// Package may tries what a user may do: Make makes objects of all owners, groups and
// modes, Try does to each what there is to do, as whoever the process is, and writes
// down what became of it, and Look what came of that.
//
//	Make ─▶ tree ─ a mount ─▶ Try as a client's user ─▶ lines ┐
//	Make ─▶ tree ───────────▶ Try as a local user ────▶ lines ┴─ the same
//
// It must not know what the tree lies on.
package may
