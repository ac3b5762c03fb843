package stream

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// testBinding is the Binding for the program that rpcCall calls.
//
//	procItem   args     limit, opaque item, word   results  status, opaque item, word
//	procPlain  args     limit                      results  up to limit bytes
//	procAny    neither has a bound
type testBinding struct{}

const (
	testProg = 100003
	testVers = 3

	procNull  = 0
	procItem  = 1
	procPlain = 2
	procAny   = 3
)

func (testBinding) Program() (prog, vers uint32) { return testProg, testVers }

func (testBinding) ArgItem(proc uint32, args []byte) (start, n int) {
	if proc != procItem || len(args) < 8 {
		return 0, 0
	}
	return 8, int(binary.BigEndian.Uint32(args[4:]))
}

func (testBinding) ResultItem(proc uint32, results []byte) (start, n int) {
	r := xdr.NewReader(results)
	if proc != procItem || r.Uint32() != 0 {
		return 0, 0
	}
	n = len(r.Opaque(1 << 30))
	if r.Uint32(); r.Done() != nil {
		return 0, 0
	}
	return 8, n
}

func (testBinding) MaxResults(proc uint32, args []byte) (rest, item int) {
	r := xdr.NewReader(args)
	switch limit := int(r.Uint32()); proc {
	case procItem:
		return 12, limit
	case procPlain:
		return limit, 0
	case procAny:
		return -1, 0
	}
	return 0, 0
}

// callTo returns an RPC call to the test's program.
func callTo(xid, proc uint32, args ...[]byte) []byte {
	b := rpcCall(xid, "")
	binary.BigEndian.PutUint32(b[20:], proc)
	for _, a := range args {
		b = append(b, a...)
	}
	return b
}

// The parts in arguments and results.
func encodeWord(v int) []byte { return xdr.AppendUint32(nil, uint32(v)) }

func encodeOpaque(data []byte) []byte { return xdr.AppendOpaque(nil, data) }

// successReply returns a successful call's RPC reply.
func successReply(xid uint32, results ...[]byte) []byte {
	b := appendSuccess(nil, xid)
	for _, r := range results {
		b = append(b, r...)
	}
	return b
}

// recordFragments returns a message as a record, cut into fragments with the given lengths and one
// more for what remains.
func recordFragments(msg []byte, lengths ...int) (b []byte) {
	for _, n := range lengths {
		b = append(binary.BigEndian.AppendUint32(b, uint32(n)), msg[:n]...)
		msg = msg[n:]
	}
	return append(binary.BigEndian.AppendUint32(b, 1<<31|uint32(len(msg))), msg...)
}

// A testListener is a Listener on an RDMA listener in memory.
type testListener struct {
	t      *testing.T
	listen *rdmatest.Listener
	l      *Listener
	conns  chan net.Conn // accepted connections
}

// withListener runs f in a bubble with a Listener, and checks that no resources
// leak.
func withListener(t *testing.T, set func(*rpcrdma.Server), f func(t *testing.T, r *testListener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		l := rdmatest.Listen(t)
		r := &testListener{t: t, listen: l, l: Listen(l, testBinding{}), conns: make(chan net.Conn, 100)}
		if set != nil {
			set(&r.l.Server)
		}
		go func() {
			defer close(r.conns)
			for {
				c, err := r.l.Accept()
				if err != nil {
					assert.ErrorIs(t, err, net.ErrClosed)
					return
				}
				r.conns <- c
			}
		}()
		synctest.Wait()
		f(t, r)
		require.NoError(t, r.l.Server.Shutdown(t.Context()))
		require.NoError(t, r.l.Close())
		synctest.Wait()
		assert.Equal(t, before, buf.Default.Out(), "buffers lent")
		assert.Empty(t, r.l.conns)
		assert.Empty(t, r.l.ready)
		assert.Zero(t, r.l.Server.Stats().Inline.InUse, "bytes of messages")
		assert.Zero(t, r.l.Server.Stats().Memory.InUse, "all memory was released")
	})
}

// acceptConn returns the next connection.
func (r *testListener) acceptConn() net.Conn {
	r.t.Helper()
	synctest.Wait()
	require.NotEmpty(r.t, r.conns, "connections to be accepted")
	return <-r.conns
}

// readRecord reads one record.
func readRecord(t testing.TB, c io.Reader) []byte {
	t.Helper()
	b, err := nextRecord(c)
	require.NoError(t, err)
	return b
}

// nextRecord reads one record as the simplest servers do, which take only
// single-fragment records.
func nextRecord(c io.Reader) ([]byte, error) {
	var mark [4]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(mark[:])
	if n&(1<<31) == 0 {
		return nil, errors.New("a record of several fragments")
	}
	b := make([]byte, n&^(1<<31))
	_, err := io.ReadFull(c, b)
	return b, err
}

// writeAll writes bytes that must be accepted.
func writeAll(t testing.TB, c io.Writer, b []byte) {
	t.Helper()
	n, err := c.Write(b)
	require.NoError(t, err)
	require.Len(t, b, n)
}
