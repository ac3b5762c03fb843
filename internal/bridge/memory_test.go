package bridge

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A fakeSlowServer server answers one call for each word.
type fakeSlowServer chan struct{}

func (p fakeSlowServer) Call(_ context.Context, x *oncrpc.Exchange) error {
	<-p
	x.Reply = oncrpc.AppendSystemErr(nil, 0)
	return nil
}

// TestMemoryBeforeTurn checks that a call with a turn does not wait for memory
// held by a call that waits for a turn, if both are scarce.
func TestMemoryBeforeTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := make(fakeSlowServer)
		b := Bridge{NFS: server, Credits: func() int { return 1 }}
		memory := make(chan struct{}, 1) // for one long reply
		serve := func(proc uint32, args []byte) {
			req := &oncrpc.Request{Msg: encodeCall(1, nfs3.Program, 3, proc, args), Peer: new(oncrpc.Peer)}
			has := false
			rep := &oncrpc.Reply{Lend: func(n int) *buf.Buf {
				memory <- struct{}{}
				has = true
				return buf.Default.Get(n)
			}}
			assert.True(t, b.Serve(t.Context(), req, rep))
			rep.DropItem()
			if has {
				<-memory
			}
		}
		dir := nfs3.FH("handle")
		go serve(nfs3.ProcGetAttr, dir.AppendTo(nil))
		synctest.Wait() // it has the turn
		go serve(nfs3.ProcReadDir, (&nfs3.ReadDirArgs{Dir: dir, Count: 32 << 10}).AppendTo(nil))
		synctest.Wait()
		go serve(nfs3.ProcRead, (&nfs3.ReadArgs{File: dir, Count: 1 << 20}).AppendTo(nil))
		synctest.Wait()
		for range 3 {
			server <- struct{}{}
		}
	})
	assert.Zero(t, buf.Default.Out())
}
