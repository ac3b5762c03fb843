package nfsclient

import "github.com/nfsrdma/nfsrdma/nfs/nfs3"

// A lastAttr is what the server said of a WriteBehind's file when it had all data,
// so that nobody has to ask for it (RFC 1813, Section 2.6: wcc_data).
type lastAttr struct {
	attr nfs3.PostOpAttr
	turn uint64 // the last Sync that had begun when the server was called
}

// hear takes the attributes that came with the answer to the only call about
// data that there was. Where data came meanwhile or were lost, they are not the
// last word.
func (w *WriteBehind) hear(turn uint64, a *nfs3.PostOpAttr) {
	if len(w.pieces) == 0 && len(w.flights) == 0 {
		w.lastAttr = lastAttr{*a, turn}
	}
}
