// Package billy serves any file system of go-git/go-billy as a vfs.FS: one in
// memory, in an archive, in a bucket, whatever Go programs already have.
//
//	handle ──table──▶ node ──names──▶ path ──go-billy──▶ os.FileInfo, File
//	                  └─ its places in directories
//
// # Handles
//
// A billy file system knows paths alone. A handle leads through a table of the
// objects that clients have seen: a rename moves a node, and all that lies
// below it with it, and a removed object's handle is ESTALE, whatever has its
// name later. The table is bounded (Options.MaxObjects): what clients have not
// used for longest is forgotten, and its handles are ESTALE until they look it
// up again. It ends with the process, unless Options.Handles knows better.
//
// # What a billy file system lacks
//
// A file whose Sync is not to be had cannot be promised to last, so that it is not
// served unless Options.Volatile says that it needs none. The wrapper around the
// files of go-billy's osfs hides theirs; it is looked into.
//
// Everything is done in the process's own name: callers are not told apart,
// and all of them may do what the process may. Attributes change where there is
// a billy.Change, else that is EOPNOTSUPP; hard links, devices, sockets and
// FIFOs need a Special. Times of symbolic links cannot be set. An object with
// neither a change time nor an inode number of its own gets both from the
// table. New names are as stable as the file system makes them: there is no
// call to sync a directory.
//
// What another part of the program changes in the file system shows, as far as
// types and inode numbers tell objects apart.
//
// # One at a time
//
// Most billy file systems may not be used by several goroutines at once. FS has
// a lock: with Options.Concurrent reads go beside each other, and only changes
// have it for themselves. Attributes around a change are read under it, so that
// nothing done through the same FS lies between them.
//
// Slices belong to the caller; Entry.Name lives during the call of fn. The
// package must not know RPC, XDR, exports or go-nfs.
package billy
