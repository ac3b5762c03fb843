package exportset

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestRequestEnds checks that the end of a call releases its permit, its export and the names
// that it has locked.
func TestRequestEnds(t *testing.T) {
	s := newTestSet(t, new(fakeRootFS))
	e := s.Snapshot().List()[0]
	root := e.FS.Root()
	fh := s.AppendHandle(nil, e, &root)
	var q Request
	for range 2 {
		q.Begin(s, peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, new(oncrpc.Reply))
		h, err := q.Open(t.Context(), fh)
		require.NoError(t, err)
		require.NoError(t, q.lockNames(Place{Dir: h, Name: "a"}, Place{Dir: h, Name: "b"}))
		assert.EqualValues(t, 1, s.permits.taken.Load())
		assert.EqualValues(t, 1, e.calls.Load())
		assert.Len(t, s.nameLocks.names, 2)
		q.End()
		assert.Zero(t, s.permits.taken.Load())
		assert.Zero(t, e.calls.Load())
		assert.Empty(t, s.nameLocks.names)
	}
}
