// Package may tries a user's rights. Make creates objects with all owners, groups
// and modes. Try tries each operation on each object as the process's user, and
// records the outcomes. Look records the resulting state.
//
//	Make ─▶ tree ─ a mount ─▶ Try as a client's user ─▶ lines ┐
//	Make ─▶ tree ───────────▶ Try as a local user ────▶ lines ┴─ the same
//
// It must not know the tree's file system.
package may
