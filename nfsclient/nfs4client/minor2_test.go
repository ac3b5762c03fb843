package nfs4client

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestRequestsOfMinor2 checks that all calls of a client have its minor version (R7862-2-3), and
// that it reads by READ, whose data can be placed, also where the file has a hole
// (R7862-15.10-10).
func TestRequestsOfMinor2(t *testing.T) {
	g := newTestServer(t)
	rec := g.recordCalls()
	s, err := Dial(t.Context(), Config{Dial: g.dialServer, Network: "tcp", Minor: nfs4.Minor2, Cred: asRoot})
	require.NoError(t, err)
	ctx := t.Context()
	f, err := s.Open(ctx, exportRoot(t, s), "f", OpenFlags{Read: true, Write: true, Create: true, Mode: 0o600})
	require.NoError(t, err)
	_, err = f.WriteAt(ctx, []byte("data"), 1<<20, nfs4.FileSync)
	require.NoError(t, err)
	p := []byte("not zeros")
	n, err := f.ReadAt(ctx, p, 0)
	require.NoError(t, err)
	assert.Equal(t, make([]byte, len(p)), p[:n])
	require.NoError(t, f.Close(ctx))
	require.NoError(t, s.Close(ctx))

	reads := 0
	for _, q := range rec.allRequests() {
		assert.Equal(t, nfs4.Minor2, q.minor, "R7862-2-3")
		for _, op := range q.ops {
			assert.Less(t, op, nfs4.OpAllocate, "R7862-15.10-10")
			if op == nfs4.OpRead {
				reads++
			}
		}
	}
	assert.Equal(t, 1, reads, "R7862-15.10-10")
}
