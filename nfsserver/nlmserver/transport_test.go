package nlmserver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestLateDuplicates checks that a retransmitted call, as over UDP, neither releases what its
// client has locked since, nor locks what the client has unlocked.
func TestLateDuplicates(t *testing.T) {
	for _, vers := range Versions {
		g := newTestServer(t)
		cache := replay.New(g.mux, replay.Config{Keep: func(p rpcmsg.Procedure, _ []byte) bool { return ExecuteOnce(p) }})
		t.Cleanup(cache.Close)
		a := g.newClient("192.0.2.1", "a")
		a.vers = vers
		xid := uint32(0)
		send := func(msg []byte) {
			t.Helper()
			var rep oncrpc.Reply
			require.True(t, cache.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: &a.peer, MaxReply: 8192}, &rep))
		}
		call := func(proc uint32, args message) []byte {
			xid++
			x := oncrpc.Exchange{Prog: nlm4.Program, Vers: vers, Proc: proc, Cred: a.cred}
			msg := append(oncrpc.AppendCall(nil, xid, &x, "machine"), args.AppendTo(nil, vers)...)
			send(msg)
			return msg
		}
		lock := call(nlm4.ProcLock, a.lockArgs(false, true, 0, 1))
		unlock := call(nlm4.ProcUnlock, &nlm4.UnlockArgs{Cookie: cookie, Lock: a.lockOf(0, 1)})
		require.Zero(t, g.lockCount())
		send(lock)
		assert.Zero(t, g.lockCount(), "LOCK again")
		call(nlm4.ProcLock, a.lockArgs(false, true, 0, 1))
		send(unlock)
		assert.Equal(t, 1, g.lockCount(), "UNLOCK again")
		message := call(nlm4.ProcUnlockMsg, &nlm4.UnlockArgs{Cookie: cookie, Lock: a.lockOf(0, 1)})
		require.Zero(t, g.lockCount())
		call(nlm4.ProcLockMsg, a.lockArgs(false, true, 0, 1))
		send(message)
		assert.Equal(t, 1, g.lockCount(), "UNLOCK_MSG again")
		if vers != nlm4.Version1 {
			free := call(nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte("a")})
			call(nlm4.ProcLock, a.lockArgs(false, true, 0, 1))
			send(free)
			assert.Equal(t, 1, g.lockCount(), "FREE_ALL again")
		}
	}
}
