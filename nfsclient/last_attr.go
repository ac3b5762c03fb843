package nfsclient

import "github.com/nfsrdma/nfsrdma/nfs/nfs3"

// A lastAttr holds the attributes of a WriteBehind's file that the server sent
// when it had all data. They save a GETATTR (RFC 1813, Section 2.6: wcc_data).
type lastAttr struct {
	attr nfs3.PostOpAttr
	turn uint64 // the last Sync that had begun when the call was made
}

// hear takes the attributes from the reply to the only WRITE or COMMIT under
// way. If data have come meanwhile or were lost, the attributes are not final,
// and are ignored.
func (w *WriteBehind) hear(turn uint64, a *nfs3.PostOpAttr) {
	if len(w.pieces) == 0 && len(w.flights) == 0 {
		w.lastAttr = lastAttr{*a, turn}
	}
}
