// Package billy serves any file system of go-git/go-billy as a vfs.FS: one in
// memory, in an archive, in a bucket, or any other that a Go program has.
//
//	handle ──table──▶ node ──names──▶ path ──go-billy──▶ os.FileInfo, File
//	                  └─ its places in directories
//
// # Handles
//
// A billy file system knows only paths. A handle leads through a table with the objects that
// clients have seen: a rename moves a node together with everything below it, and a removed
// object's handle is ESTALE, even if another object gets its name. The table is bounded
// (Options.MaxObjects): the least recently used objects are forgotten, and their handles are ESTALE
// until clients look them up again. The table is lost when the process exits, unless
// Options.Handles resolves older handles.
//
// # Limits of billy file systems
//
// A file without an accessible Sync cannot be promised to be stable. Such a file system is rejected
// unless Options.Volatile says that it needs no Sync. The wrapper around the files of go-billy's
// osfs hides their Sync, so the package looks inside the wrapper.
//
// All operations run as the process itself: callers are not distinguished, and all have the
// process's rights. Attributes can be changed if there is a billy.Change, and are otherwise
// EOPNOTSUPP; hard links, devices, sockets and FIFOs need a Special. Symbolic links' times cannot
// be set. An object with neither a change time nor an inode number of its own gets both from the
// table. New names are as stable as the file system keeps them, because go-billy has no call to
// sync a directory.
//
// Changes by other parts of the program show, as far as types and inode numbers
// distinguish objects.
//
// # One at a time
//
// Most billy file systems do not permit concurrent use. FS has a lock: with Options.Concurrent
// reads run concurrently, and only changes take the lock exclusively. Attributes around a change
// are read under the lock, so no other operation on the same FS lies between them.
//
// Slices belong to the caller; Entry.Name is valid during the call to fn. The package must not know
// RPC, XDR, exports or go-nfs.
package billy
