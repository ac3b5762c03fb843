package fusefs

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
)

// TestRightsBeforeGrant checks that rights learned before a grant count under
// the grant only if the object's state was as granted, and the server's clock
// had left the tick of the last change.
func TestRightsBeforeGrant(t *testing.T) {
	granted := nfs3.Attr{Type: nfs3.TypeReg, Mode: 0o644, Size: 9, Ctime: nfs3.Time{Sec: 100}, Mtime: nfs3.Time{Sec: 90}}
	other := func(change func(a *nfs3.Attr)) nfs3.Attr {
		a := granted
		change(&a)
		return a
	}
	later := int64(100*time.Second + time.Second)
	for name, tt := range map[string]struct {
		attr   nfs3.PostOpAttr
		read   int64
		learnt uint64
		known  bool
	}{
		"as it was granted":   {nfs3.PostOpAttr{OK: true, Attr: granted}, later, 8, true},
		"another ctime":       {nfs3.PostOpAttr{OK: true, Attr: other(func(a *nfs3.Attr) { a.Ctime.Sec-- })}, later, 8, false},
		"another mtime":       {nfs3.PostOpAttr{OK: true, Attr: other(func(a *nfs3.Attr) { a.Mtime.Sec-- })}, later, 8, false},
		"another size":        {nfs3.PostOpAttr{OK: true, Attr: other(func(a *nfs3.Attr) { a.Size-- })}, later, 8, false},
		"in the tick":         {nfs3.PostOpAttr{OK: true, Attr: granted}, int64(100 * time.Second), 8, false},
		"no clock":            {nfs3.PostOpAttr{OK: true, Attr: granted}, 0, 8, false},
		"no attributes":       {nfs3.PostOpAttr{}, later, 8, false},
		"granted, not learnt": {nfs3.PostOpAttr{OK: true, Attr: granted}, later, 7, false},
	} {
		t.Run(name, func(t *testing.T) {
			who := &caller{cred: rpcmsg.Cred{UID: 1}}
			n := node{attr: granted}
			n.grant, n.changedAt, n.learnedAt = 8, 5, tt.learnt
			n.recordRights(who, accessReply{asked: nfs3.AccessRead, allowed: nfs3.AccessRead, calledAt: 6, serverTime: tt.read, attr: tt.attr})
			_, known := n.cachedRightsLocked(who, nfs3.AccessRead)
			assert.Equal(t, tt.known, known)
		})
	}
}
