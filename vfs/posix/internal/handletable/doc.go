// Package handletable maps handles to names for file systems whose objects the
// kernel does not open by handle.
//
//	inode ─index─▶ offset in the log ─▶ entry: ID, names (parent inode, name)
//
// A handle contains an ID: an inode number, data that distinguish the object
// from others with that number, and the directory where it was first seen. A
// Table maps the inode number to the places where the object was last seen. The
// table is a log in the state directory, which a process killed at any moment
// leaves readable, and which belongs to one export: the table of another export
// that had the path is set aside. Without a state directory, the log is in
// memory.
//
// Entries are written by Flush, and are on stable storage after Sync. The
// package compares and stores what its caller has seen. It must not open, search
// or stat objects, nor know vfs.FS.
package handletable
