package nfsclient

import "github.com/nfsrdma/nfsrdma/nfs/nfs3"

// A lastAttr holds the file's attributes that the server sent when it had all
// of a WriteBehind's data. They save a GETATTR (RFC 1813, Section 2.6:
// wcc_data).
type lastAttr struct {
	attr      nfs3.PostOpAttr
	syncCount uint64 // the last Sync that had begun when the call was sent
}

// recordAttr stores the attributes from the reply to the only WRITE or COMMIT
// in flight. If data have been added or lost since, the attributes are not
// final, and recordAttr ignores them.
func (w *WriteBehind) recordAttr(turn uint64, a *nfs3.PostOpAttr) {
	if len(w.pieces) == 0 && len(w.writes) == 0 {
		w.lastAttr = lastAttr{*a, turn}
	}
}
