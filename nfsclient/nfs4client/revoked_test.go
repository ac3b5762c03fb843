package nfs4client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestRevoked removes an export: SEQUENCE's flags tell the client that files
// are lost; it frees each of their stateids, and keeps its other files.
//
// R8881-8.3-5, R8881-18.38.3-3, R7530-9.6.3.3-1.
func TestRevoked(t *testing.T) {
	export := func(path string) exportset.Export {
		return exportset.Export{Path: path, FS: mem.New(mem.Options{Size: 1 << 20})}
	}
	for name, flag := range map[string]uint32{
		"by SEQUENCE":                 0,
		"EXPIRED_ALL_STATE_REVOKED":   nfs4.SeqExpiredAllStateRevoked,
		"EXPIRED_SOME_STATE_REVOKED":  nfs4.SeqExpiredSomeStateRevoked,
		"ADMIN_STATE_REVOKED":         nfs4.SeqAdminStateRevoked,
		"RECALLABLE_STATE_REVOKED":    nfs4.SeqRecallableStateRevoked,
		"with a flag that is ignored": nfs4.SeqAdminStateRevoked | nfs4.SeqCBPathDown,
	} {
		t.Run(name, func(t *testing.T) {
			kept, gone := export("/a/b"), export("/c")
			g := newTestServer(t, kept, gone)
			s := g.newSession()
			open := func(path, name string) *File {
				h, err := s.Walk(t.Context(), path)
				require.NoError(t, err)
				f, err := s.Open(t.Context(), h, name, OpenFlags{Read: true, Write: true, Create: true, Mode: 0o666})
				require.NoError(t, err)
				return f
			}
			safe, opened, locked := open("/a/b", "safe"), open("/c", "opened"), open("/c", "locked")
			require.NoError(t, locked.Lock(t.Context(), Range{End: 9}, true))
			require.NoError(t, g.realm.SetExports(g.realm.Exports()))
			require.NoError(t, s.Sequence(t.Context()))
			assert.Zero(t, s.Flags()&revokedFlags, "nothing is revoked yet")

			require.NoError(t, g.realm.SetExports([]exportset.Export{kept}))
			if flag != 0 {
				s.handleFlags(s.current.Load(), flag)
			}
			write := func(f *File) error {
				_, err := f.WriteAt(t.Context(), []byte("data"), 0, nfs4.FileSync)
				return err
			}
			require.Eventually(t, func() bool {
				require.NoError(t, s.Sequence(t.Context()))
				return s.Flags()&revokedFlags == 0
			}, 10*time.Second, time.Millisecond, "all is freed")
			require.Eventually(t, func() bool { return !s.freeingRevoked.Load() }, 10*time.Second, time.Millisecond)
			for _, f := range []*File{opened, locked} {
				err := write(f)
				assert.ErrorIs(t, err, ErrRevoked)
				assert.Equal(t, f == locked, f.hasLocks())
			}
			assert.ErrorIs(t, write(locked), ErrLockLost)
			assert.NotErrorIs(t, write(opened), ErrLockLost)
			assert.NoError(t, write(safe))
			assert.NoError(t, safe.Close(t.Context()))
			assert.Len(t, s.files, 0)
		})
	}
}

// TestSentAgain checks that a rejected call that its caller repeats is a new
// call: with its slot's next sequence ID. The client itself does nothing about
// these statuses: neither WRONGSEC for PUTROOTFH (R7530-16.31-2), because it has
// one credential, nor FHEXPIRED (R7530-4.3-1) and MOVED (R7530-9.14.3-1),
// because it keeps no names.
//
// R8881-15.1.8.3-1.
func TestSentAgain(t *testing.T) {
	for _, status := range []nfs4.Status{nfs4.ErrDenied, nfs4.ErrWrongSec, nfs4.ErrClidInUse, nfs4.ErrLayoutTryLater, nfs4.ErrFHExpired, nfs4.ErrMoved} {
		var p fakeServer
		s := p.newSession(t)
		var sent []nfs4.SequenceArgs
		p.setAnswer(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte {
			sent = append(sent, *seq)
			return encodeSequenced(seq, status, encodeFailure(nfs4.OpPutRootFH, status))
		})
		for range 2 {
			c := s.getCompound()
			c.PutRootFH()
			assert.ErrorIs(t, s.Do(t.Context(), c), status)
			s.putCompound(c)
		}
		require.Len(t, sent, 2)
		assert.Equal(t, sent[0].Slot, sent[1].Slot)
		assert.Equal(t, sent[0].Sequence+1, sent[1].Sequence)
		p.setAnswer(nil)
	}
}

// TestRevokedUnknown has a server say forever that it has revoked state: a
// client without such state does not look for it at each call.
func TestRevokedUnknown(t *testing.T) {
	g := newTestServer(t)
	s := g.newSession()
	f, err := s.Open(t.Context(), exportRoot(t, s), "f", OpenFlags{Read: true, Write: true, Create: true, Mode: 0o666})
	require.NoError(t, err)
	for range 3 {
		s.handleFlags(s.current.Load(), nfs4.SeqAdminStateRevoked)
		require.Eventually(t, func() bool { return !s.freeingRevoked.Load() }, 10*time.Second, time.Millisecond)
	}
	tests := 0
	for _, o := range g.server.Operations() {
		if nfs4.Op(o.Op) == nfs4.OpTestStateID {
			tests = int(o.Count)
		}
	}
	assert.Equal(t, 1, tests)
	require.NoError(t, f.Close(t.Context()))
}
