// Package filesync puts files' data and attributes on stable storage, and
// reports each loss of data.
//
//	write ─MarkDirty─▶ dirty ─SyncFile, SyncInode─▶ clean
//	                     └────SyncForClose──────────▶ closed
//
// Linux reports a failure to write data once to each open file description, so
// a Disk knows all descriptors through which an inode's data was written, and
// syncs that overlap wait for each other. A file system that cannot sync single
// files is synced as a whole: one syncfs(2) serves all callers that came before
// it.
//
// A File belongs to its caller, who must not close the descriptor before
// SyncForClose or AbandonFile, and may reuse it afterwards. The package must not
// know objects, callers or write verifiers: onLoss says that data may be lost.
package filesync
