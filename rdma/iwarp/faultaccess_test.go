package iwarp

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestAccessError checks that the end that accessed forbidden memory learns
// from the Terminate which memory that was, by its connection's error and its
// unfinished requests' errors. The other end's error does not contain this.
func TestAccessError(t *testing.T) {
	for name, tt := range map[string]struct {
		op   rdma.Op
		want bool
	}{
		"Write": {rdma.OpWrite, true},
		"Read":  {rdma.OpRead, true},
		"Send":  {rdma.OpSend, false}, // is too long
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, b := connectPair(t, pairOptions{recvSize: 64})
			done := make(completionWaiter, 2)
			wr := rdma.WR{Op: tt.op, Data: [][]byte{make([]byte, 65)}, Remote: rdma.Remote{STag: 0xbad}}
			require.NoError(t, a.Post(wr, rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}, Fence: true, Done: done}))
			ends := []error{a.inbox.closeError(t), done.wait(t).Err}
			overwriteBuffers() // the Terminate arrived in such a buffer
			for _, err := range ends {
				var e rdma.AccessError
				require.Equal(t, tt.want, errors.As(err, &e), "%v", err)
				if tt.want {
					assert.Equal(t, rdma.STag(0xbad), e.STag)
				}
			}
			assert.False(t, errors.As(b.inbox.closeError(t), new(rdma.AccessError)))
		})
	}
}

// TestAccessErrorNotTold checks that a Terminate for another error, or without
// headers, names no memory.
func TestAccessErrorNotTold(t *testing.T) {
	read := requestSeg(1, rdmap.ReadRequest{SourceSTag: 7})
	for name, tt := range map[string]struct {
		fault Fault
		want  bool
	}{
		"Read":                {Fault{Remote: true, Terminate: rdmap.NewTerminate(rdmap.ErrAccess, read, len(read))}, true},
		"found by this end":   {Fault{Terminate: rdmap.NewTerminate(rdmap.ErrAccess, read, len(read))}, false},
		"another fault of it": {Fault{Remote: true, Terminate: rdmap.NewTerminate(rdmap.ErrOpcode, read, len(read))}, false},
		"no headers":          {Fault{Remote: true, Terminate: rdmap.NewTerminate(rdmap.ErrAccess, nil, 0)}, false},
		"cut header":          {Fault{Remote: true, Terminate: rdmap.Terminate{Cause: rdmap.ErrAccess, DDPHeader: writeSeg(true, 7, 0, nil)[:5]}}, false},
	} {
		var e rdma.AccessError
		assert.Equal(t, tt.want, errors.As(error(&tt.fault), &e), name)
		if tt.want {
			assert.Equal(t, rdma.STag(7), e.STag)
		}
	}
}

// overwriteBuffers overwrites free buffers' memory.
func overwriteBuffers() {
	for n := 512; n <= 1<<20; n *= 2 {
		var all []*buf.Buf
		for range 16 {
			b := buf.Default.Get(n)
			copy(b.B, bytes.Repeat([]byte{0xee}, n))
			all = append(all, b)
		}
		for _, b := range all {
			b.Release()
		}
	}
}
