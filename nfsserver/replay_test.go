package nfsserver

import (
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExecuteOnce(t *testing.T) {
	var once []string
	keeps := func(prog, vers, proc uint32) bool {
		return ExecuteOnce(rpcmsg.Procedure{Prog: prog, Vers: vers, Proc: proc}, nil)
	}
	for proc := range uint32(nfs3.NumProc + 2) {
		if keeps(nfs3.Program, nfs3.Version, proc) {
			once = append(once, nfs3.ProcName(proc))
		}
		assert.False(t, keeps(nfs3.Program, 4, proc), "sessions keep the replies")
		assert.Equal(t, proc == nfsacl.ProcSetACL, keeps(nfsacl.Program, nfsacl.Version, proc))
		assert.False(t, keeps(nfsacl.Program, 2, proc))
		assert.False(t, keeps(mount3.Program, mount3.Version, proc))
	}
	assert.Equal(t, []string{
		"SETATTR", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK",
	}, once)
}

// TestReplay checks that a call is executed once, and that a call refused with
// NFS3ERR_JUKEBOX is executed when it is retransmitted.
func TestReplay(t *testing.T) {
	fs := newMemFS()
	g := newTestServer(t, fs)
	cache := replay.New(g.mux, replay.Config{Keep: ExecuteOnce})
	defer cache.Close()
	a := nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: g.handleOf(memRoot), Name: []byte("new")}}
	msg := a.AppendTo(g.callHeader(nfs3.Program, nfs3.Version, nfs3.ProcMkdir))
	mkdir := func() nfs3.Status {
		var rep oncrpc.Reply
		require.True(t, cache.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: g.peer, MaxReply: 4096}, &rep))
		stat, results := g.parseAccepted(rep.Head)
		require.Zero(t, stat)
		var res nfs3.MakeRes
		g.decodeResults(results, nil, &res)
		return res.Status
	}
	fs.fail = syscall.EAGAIN
	assert.Equal(t, nfs3.ErrJukebox, mkdir())
	fs.fail = nil
	assert.Equal(t, nfs3.OK, mkdir())
	assert.Equal(t, nfs3.OK, mkdir(), "not NFS3ERR_EXIST")
	assert.EqualValues(t, 1, cache.Stats().Replayed)
}
