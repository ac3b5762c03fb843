package nfs4server

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeHungJournal is on a disk that does not respond from a moment on.
type fakeHungJournal struct{ hangs chan struct{} }

func (j *fakeHungJournal) waitIfHung() error {
	if j.hangs != nil {
		<-j.hangs
	}
	return nil
}
func (j *fakeHungJournal) Append(...[]byte) error                { return j.waitIfHung() }
func (j *fakeHungJournal) Replace(records func() [][]byte) error { records(); return j.waitIfHung() }
func (j *fakeHungJournal) Size() int64                           { return 0 }

// TestHungJournal checks that calls that wait for the journal keep no permit for the export: a
// read through an open file from the same address continues at once, however many files new
// clients open, and however many locks they request.
func TestHungJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r, err := exportset.New(exportset.Config{Exports: []exportset.Export{{
			Path: "/x", FS: mem.New(mem.Options{Size: 1 << 20}), Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true}),
		}}})
		require.NoError(t, err)
		j := new(fakeHungJournal)
		state := nfs4state.New(WithFiles(nfs4state.Config{
			Now: func() time.Duration { return time.Since(start) }, Epoch: 7, Lease: recallLease, Journal: j,
		}))
		g := &testServer{
			t: t, s: New(Config{Exports: r, State: state, Lease: recallLease}), minor: 2, cached: 7584, tag: "tag",
			peer: &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: "tcp"},
		}
		defer g.s.Close()
		g.cred.Flavor = 1
		g.connectAs("old")
		fh := g.makeFile("f", "content") // the client has a record
		opened, _, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
		require.Equal(t, nfs4.OK, st)
		const clients, slots = 40, 8
		var waiting []*testServer
		for i := range clients {
			n := *g
			n.sessionAs(fmt.Sprint("new", i))
			st, _ := n.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
			require.Equal(t, nfs4.OK, st)
			waiting = append(waiting, &n)
		}
		locker := g.anotherSession("old")
		j.hangs = make(chan struct{})
		begun := time.Now()
		for _, n := range waiting {
			for slot := range uint32(slots) {
				seq := nfs4.SequenceArgs{Session: n.session, Slot: slot, Sequence: 1, HighestSlotID: slots - 1}
				if slot == 0 {
					seq.Sequence = 2
				}
				a := openArgs("o", "", nfs4.ShareRead, 0, nfs4.NoCreate)
				a.Claim = nfs4.ClaimFH
				msg := n.encodeCompound(step{nfs4.OpSequence, &seq, nil}, putStep(fh), step{nfs4.OpOpen, a, new(nfs4.OpenRes)})
				go func() {
					call := oncrpc.Call{Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: n.cred, Peer: n.peer, Args: xdr.NewReader(msg), MaxReply: 1 << 20}
					var reply oncrpc.Reply
					assert.NoError(t, n.s.ServeRPC(context.Background(), &call, &reply))
				}()
			}
		}
		lock := make(chan nfs4.Status, 1)
		go func() { // the client's first lock
			_, st := locker.lockFile(fh, lockArgs(opened.StateID, "l", nfs4.LockWrite, 0, 1))
			lock <- st
		}()
		synctest.Wait()
		data, st := g.readFile(fh, opened.StateID)
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, "content", data)
		assert.Zero(t, time.Since(begun))
		close(j.hangs)
		assert.Equal(t, nfs4.OK, <-lock)
	})
}
