//go:build linux

package posix

import (
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An nfsServer serves a testFS over NFS.
type nfsServer struct {
	*testFS
	mux *oncrpc.Mux
}

func startNFSServer(w *testFS) nfsServer {
	s, err := nfsserver.New(nfsserver.Config{Key: [32]byte{1}, Exports: []nfsserver.Export{{Path: "/x", FS: w.f}}})
	require.NoError(w, err)
	mux := new(oncrpc.Mux)
	s.Register(mux)
	return nfsServer{w, mux}
}

// call sends a call as the testFS's user, and returns the status and the rest of the results.
func (s nfsServer) call(prog, vers, proc uint32, args []byte) (nfs3.Status, xdr.Reader) {
	s.Helper()
	var cred, msg []byte
	for _, v := range []uint32{0, 0, s.c.UID, s.c.GID, 0} {
		cred = xdr.AppendUint32(cred, v)
	}
	for _, v := range []uint32{1, 0, 2, prog, vers, proc, rpcmsg.AuthSys} {
		msg = xdr.AppendUint32(msg, v)
	}
	msg = append(xdr.AppendUint64(xdr.AppendOpaque(msg, cred), 0), args...)
	rep := oncrpc.Reply{Hold: func(int) {}}
	require.True(s, s.mux.Serve(s.Context(), &oncrpc.Request{
		Msg: msg, ItemPos: len(msg), MaxReply: 1 << 16,
		Peer: &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: "tcp"},
	}, &rep))
	r := xdr.NewReader(rep.Head)
	for range 6 { // XID to accept_stat
		r.Uint32()
	}
	require.NoError(s, r.Err())
	return nfs3.Status(r.Uint32()), r
}

// walk returns the file handle of a name in the root, or of the root for "".
func (s nfsServer) walk(name string) nfs3.FH {
	s.Helper()
	status, r := s.call(mount3.Program, mount3.Version, mount3.ProcMnt, xdr.AppendOpaque(nil, []byte("/x")))
	require.Zero(s, status)
	fh := nfs3.FH(r.Opaque(64))
	if name != "" {
		status, r = s.call(nfs3.Program, nfs3.Version, nfs3.ProcLookup, s.in("", name))
		require.Equal(s, nfs3.OK, status)
		fh = nfs3.FH(r.Opaque(64))
	}
	require.NoError(s, r.Err())
	return fh
}

// in encodes a name in a directory of the root.
func (s nfsServer) in(dir, name string) []byte {
	a := nfs3.DirOpArgs{Dir: s.walk(dir), Name: []byte(name)}
	return a.AppendTo(nil)
}

// TestServedSyncs checks that a change by an NFS client is on stable storage
// before the reply, and that the reply has the error if that fails.
func TestServedSyncs(t *testing.T) {
	none := new(nfs3.SetAttr).AppendTo(nil)
	mode := (&nfs3.SetAttr{Mode: nfs3.OptUint32{Set: true, Value: 0o640}}).AppendTo(nil)
	join := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	write := func(how nfs3.Stable) func(s nfsServer) []byte {
		return func(s nfsServer) []byte {
			a := nfs3.WriteArgs{File: s.walk("f"), Stable: how, Data: []byte("data")}
			return xdr.AppendFixed(a.AppendTo(nil), a.Data)
		}
	}
	const dir = "fsync ."
	for _, tt := range []struct {
		name string
		proc uint32
		args func(s nfsServer) []byte
		want []string
	}{
		{"SETATTR", nfs3.ProcSetAttr, func(s nfsServer) []byte {
			return join(s.walk("f").AppendTo(nil), mode, xdr.AppendUint32(nil, 0))
		}, []string{"fsync f"}},
		{"CREATE", nfs3.ProcCreate, func(s nfsServer) []byte {
			return join(s.in("", "new"), xdr.AppendUint32(nil, uint32(nfs3.Unchecked)), none)
		}, []string{dir, "fsync new"}},
		{"MKDIR", nfs3.ProcMkdir, func(s nfsServer) []byte { return join(s.in("", "new"), none) }, []string{dir, "fsync new"}},
		{"SYMLINK", nfs3.ProcSymlink, func(s nfsServer) []byte {
			return xdr.AppendOpaque(join(s.in("", "new"), none), []byte("to"))
		}, []string{dir}},
		{"MKNOD", nfs3.ProcMknod, func(s nfsServer) []byte {
			return join(s.in("", "new"), xdr.AppendUint32(nil, uint32(nfs3.TypeFIFO)), none)
		}, []string{dir}},
		{"REMOVE", nfs3.ProcRemove, func(s nfsServer) []byte { return s.in("", "gone") }, []string{dir}},
		{"RMDIR", nfs3.ProcRmdir, func(s nfsServer) []byte { return s.in("", "empty") }, []string{dir}},
		{"RENAME", nfs3.ProcRename, func(s nfsServer) []byte { return join(s.in("d", "g"), s.in("e", "h")) }, []string{"fsync d", "fsync e"}},
		{"LINK", nfs3.ProcLink, func(s nfsServer) []byte {
			return join(s.walk("f").AppendTo(nil), s.in("e", "hard"))
		}, []string{"fsync e", "fsync e/hard"}},
		{"WRITE UNSTABLE", nfs3.ProcWrite, write(nfs3.Unstable), []string{}},
		{"WRITE DATA_SYNC", nfs3.ProcWrite, write(nfs3.DataSync), []string{"fdatasync f"}},
		{"WRITE FILE_SYNC", nfs3.ProcWrite, write(nfs3.FileSync), []string{"fsync f"}},
		{"COMMIT", nfs3.ProcCommit, func(s nfsServer) []byte {
			a := nfs3.CommitArgs{File: s.walk("f")}
			return a.AppendTo(nil)
		}, []string{"fsync f"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for err, want := range map[error]nfs3.Status{nil: nfs3.OK, unix.EIO: nfs3.ErrIO} {
				w, tp := syncTestFS(t)
				s := startNFSServer(w)
				args := tt.args(s)
				tp.setAnswer(func(string, int) error { return err })
				before := w.f.WriteVerifier()
				if len(tt.want) == 0 {
					want = nfs3.OK
				}
				status, _ := s.call(nfs3.Program, nfs3.Version, tt.proc, args)
				assert.Equal(t, want, status)
				assert.Equal(t, want == nfs3.OK, before == w.f.WriteVerifier(), "a new verifier for lost data alone")
				if err == nil {
					assert.Equal(t, tt.want, tp.takeCalls(w))
				}
				tp.setAnswer(nil)
			}
		})
	}
}
